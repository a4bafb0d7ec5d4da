/* A fake NVSHMEM: a heap, and where those of other PEs are. As NVIDIA's has it, what nvshmem_ptr reads may be
 * gone where the driver reports a call, so that a query then ends the program. */
#include "nvshmem.h"

#include "fake.h"

#include <stdio.h>
#include <unistd.h>

static struct { int pe, count; uint64_t base[8]; size_t bytes; } heap;
static int status, is_allowed;

uint64_t fake_nvshmem_heap(int device, size_t bytes) {
    uint64_t address = fake_map(fake_create(device, bytes), 0, bytes);
    heap.bytes = bytes;
    return address;
}

void fake_nvshmem_init(int pe, int count, const uint64_t base[], size_t bytes) {
    heap.pe = pe;
    heap.count = count;
    for (int at = 0; at < count; at++) {
        heap.base[at] = base[at];
    }
    heap.bytes = bytes;
    status = 2;
}

void fake_nvshmem_allow(int allowed) { is_allowed = allowed; }

int nvshmemx_init_status(void) { return status; }

int nvshmem_my_pe(void) {
    if (status < 2) {
        fprintf(stderr, "fake NVSHMEM: asked for the PE before there is one\n");
        _exit(97);
    }
    return heap.pe;
}

int nvshmem_n_pes(void) { return heap.count; }

void *nvshmem_ptr(const void *address, int pe) {
    uint64_t offset = (uint64_t)(uintptr_t)address - heap.base[heap.pe];
    if (!is_allowed) {
        fprintf(stderr, "fake NVSHMEM: asked when it may be gone\n");
        _exit(97);
    }
    if (status < 2 || pe < 0 || pe >= heap.count || !heap.base[pe] || offset >= heap.bytes) {
        return NULL;
    }
    return (void *)(uintptr_t)(heap.base[pe] + offset);
}
