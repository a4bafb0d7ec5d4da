/* With RUNTIME, as much of HSA as knows the kinds of memory, of which managed memory is none; else HIP above it, which only a program may
 * call. */
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

/* The types and owners of hsa_ext_amd.h: memory of the host is locked, or of a pool of the CPU's. */
enum { UNKNOWN, ALLOCATED, LOCKED };
enum { CPU, GPU };
static int is_initialised;

unsigned hsa_init(void) {
    is_initialised = 1;
    return 0;
}

unsigned hsa_amd_pointer_info(const void *address, struct pointer_info *info, void *(*allocate)(size_t), uint32_t *count, void *agents) {
    struct range found = pretended(address);
    if (!is_initialised || info->size < sizeof *info || allocate || count || agents) {
        return 0x100b;
    }
    info->type = found.is_managed || !found.kind ? UNKNOWN : found.kind == 1 && found.begin % 128 ? LOCKED : ALLOCATED;
    info->owner = found.kind == 2 ? GPU : CPU;
    return 0;
}

unsigned hsa_agent_get_info(uint64_t agent, unsigned attribute, void *to) {
    *(unsigned *)to = (unsigned)agent;
    return attribute == 17 ? 0 : 0x1001;
}

#else

unsigned hsa_init(void);

int hipInit(unsigned flags) {
    return (int)(flags + hsa_init());
}

/* What the profiler might call, and must not: HIP would initialise itself. */
static void must_not_be_called(void) {
    fprintf(stderr, "HIP would be initialised\n");
    abort();
}

int hipPeekAtLastError(void) { must_not_be_called(); return 0; }

int hipPointerGetAttributes(void) { must_not_be_called(); return 0; }

#endif
