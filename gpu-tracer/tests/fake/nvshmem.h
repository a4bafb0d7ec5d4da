/* See nvshmem.c. */
#ifndef FAKE_NVSHMEM_H
#define FAKE_NVSHMEM_H

#include <stddef.h>
#include <stdint.h>

/* Makes the heap of this process. */
uint64_t fake_nvshmem_heap(int device, size_t bytes);
/* This process is that PE; heaps are at these addresses, or at 0 where they are out of reach. */
void fake_nvshmem_init(int pe, int count, const uint64_t base[], size_t bytes);
/* Returns whether nvshmem_ptr may be called. */
void fake_nvshmem_allow(int allowed);

int nvshmemx_init_status(void);
int nvshmem_my_pe(void);
int nvshmem_n_pes(void);
void *nvshmem_ptr(const void *address, int pe);

#endif
