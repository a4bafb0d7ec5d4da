/* As much of HIP 6 as knows the kinds of memory; with RUNTIME, the runtime below it, which somebody else has initialised, and which does
 * not know managed memory. A call before hipInit ends the program: HIP would initialise itself. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct range {
    uintptr_t begin, end;
    unsigned kind, is_managed;
};

#ifdef RUNTIME

enum { MOST = 16 };
static struct range ranges[MOST];

/* From now on the memory is of this kind, by the numbers of CUDA's driver: 1 on the host, 2 on a device. */
void pretend(void *begin, size_t bytes, unsigned kind, unsigned is_managed) {
    for (int at = 0; at < MOST; at++) {
        if (ranges[at].begin == (uintptr_t)begin || !ranges[at].begin) {
            ranges[at] = (struct range){(uintptr_t)begin, (uintptr_t)begin + bytes, is_managed ? 3 : kind, is_managed};
            return;
        }
    }
}

struct range pretended(const void *address) {
    struct range found = {0};
    for (int at = 0; at < MOST; at++) {
        if (ranges[at].begin <= (uintptr_t)address && (uintptr_t)address < ranges[at].end) {
            found = ranges[at];
        }
    }
    return found;
}

struct pointer_info {
    uint32_t size;
    unsigned type;
    void *agent_base, *host_base;
    size_t bytes;
    void *user_data;
    uint64_t owner;
    uint32_t flags;
};

unsigned hsa_amd_pointer_info(const void *address, struct pointer_info *info, void *(*allocate)(size_t), uint32_t *count, void *agents) {
    struct range found = pretended(address);
    if (info->size < sizeof *info || allocate || count || agents) {
        return 0x1001;
    }
    info->type = found.kind != 0 && !found.is_managed;
    return 0;
}

#else

static int is_initialised, last_error;
struct range pretended(const void *address);

struct attributes {
    unsigned kind;
    int device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
};

int hipInit(unsigned flags) {
    is_initialised = 1;
    return (int)flags;
}

static void expect_initialised(void) {
    if (!is_initialised) {
        fprintf(stderr, "HIP would be initialised\n");
        abort();
    }
}

int hipPeekAtLastError(void) {
    expect_initialised();
    return last_error;
}

/* The program's own call, that fails. */
void pretend_error(int error) { last_error = error; }

int hipPointerGetAttributes(struct attributes *to, const void *address) {
    expect_initialised();
    struct range found = pretended(address);
    *to = (struct attributes){.kind = found.kind, .is_managed = (int)found.is_managed};
    return last_error = 0;
}

#endif
