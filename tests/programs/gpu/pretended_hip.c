/* As much of HIP 6 as knows the kinds of memory; with RUNTIME, what the runtime below it says of being initialised. A call before
 * hipInit ends the program: HIP would initialise itself. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef RUNTIME

static int is_initialised;

unsigned hsa_init(void) {
    is_initialised = 1;
    return 0;
}

unsigned hsa_system_get_info(unsigned attribute, void *value) {
    if (!is_initialised) {
        return 0x100B;
    }
    *(uint16_t *)value = 1;
    return attribute ? 0x1001 : 0;
}

#else

enum { MOST = 16 };
static struct range {
    uintptr_t begin, end;
    unsigned kind, is_managed;
} ranges[MOST];
static int is_initialised, last_error;

struct attributes {
    unsigned kind;
    int device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
};

unsigned hsa_init(void);

int hipInit(unsigned flags) {
    is_initialised = 1;
    return (int)(flags + hsa_init());
}

int hipPeekAtLastError(void) { return last_error; }

/* The program's own call, that fails. */
void pretend_error(int error) { last_error = error; }

/* From now on the memory is of this kind, by the numbers of CUDA's driver: 1 on the host, 2 on a device. */
void pretend(void *begin, size_t bytes, unsigned kind, unsigned is_managed) {
    for (int at = 0; at < MOST; at++) {
        if (ranges[at].begin == (uintptr_t)begin || !ranges[at].begin) {
            ranges[at] = (struct range){(uintptr_t)begin, (uintptr_t)begin + bytes, is_managed ? 3 : kind, is_managed};
            return;
        }
    }
}

int hipPointerGetAttributes(struct attributes *to, const void *address) {
    if (!is_initialised) {
        fprintf(stderr, "HIP would be initialised\n");
        abort();
    }
    struct range found = {0};
    for (int at = 0; at < MOST; at++) {
        if (ranges[at].begin <= (uintptr_t)address && (uintptr_t)address < ranges[at].end) {
            found = ranges[at];
        }
    }
    *to = (struct attributes){.kind = found.kind, .is_managed = (int)found.is_managed};
    return last_error = 0;
}

#endif
