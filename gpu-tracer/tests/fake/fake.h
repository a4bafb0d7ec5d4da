/* A driver and a Sanitizer that only pretend: no GPU, but the events of one, in the order in which CUDA has them.
 *
 * Kernels are lists of accesses. They wait in their stream until the program waits for that, as do the writes that the
 * tracer puts into the stream; so what is changed under a running kernel shows. Memory of the program is addresses
 * alone.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stddef.h>
#include <stdint.h>

/* What an access does; a bulk copy has FAKE_BULK besides. */
#define FAKE_LOAD 0x1u
#define FAKE_STORE 0x2u
#define FAKE_ATOMIC 0x3u
#define FAKE_PREFETCH 0x9u
#define FAKE_BULK 0x100u

/* Flags of memory. */
#define FAKE_MANAGED 0x2u
#define FAKE_PEER 0x10u

struct fake_access {
    uint64_t offset;  /* of the instruction in its kernel */
    uint64_t address; /* of lane 0 of the first warp; those of others follow, `bytes` apart */
    uint32_t lanes;   /* a mask */
    uint32_t bytes;
    uint32_t flags;
    uint32_t warps;
};

/* Loads what CUDA_INJECTION64_PATH names, as the driver does. */
int cuInit(unsigned flags);

void fake_context(uint64_t context, int device);
void fake_context_destroy(uint64_t context);
void fake_module(uint64_t context, uint64_t module, const void *image, size_t bytes);
void fake_module_unload(uint64_t context, uint64_t module);

uint64_t fake_alloc(uint64_t context, int device, size_t bytes, uint32_t flags);
uint64_t fake_host_alloc(uint64_t context, size_t bytes);
void fake_free(uint64_t address);
void fake_register(void *address, size_t bytes);
void fake_unregister(void *address);
void fake_ipc_get(uint64_t address, unsigned char handle[64]);
uint64_t fake_ipc_open(const unsigned char handle[64]);
void fake_ipc_close(uint64_t address);

void fake_launch(uint64_t context, uint64_t stream, uint64_t module, const char *kernel,
                 const struct fake_access *accesses, size_t count);
void fake_stream_wait(uint64_t context, uint64_t stream);
void fake_context_wait(uint64_t context);
/* How many launches ran in modules that were patched. */
unsigned fake_patched_launches(void);

#endif
