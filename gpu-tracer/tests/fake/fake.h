/* A fake driver and Sanitizer (cuda/), and a fake NVBit (nvbit.cpp): no GPU, but the events of one, in the
 * order in which CUDA has them.
 *
 * Kernels are lists of accesses. They wait in their stream until the program waits for that, as do the writes that the
 * tracer puts into the stream; so what is changed under a running kernel shows. Memory of the program is addresses
 * alone.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of access; a bulk copy has FAKE_BULK besides. */
#define FAKE_LOAD 0x1u
#define FAKE_STORE 0x2u
#define FAKE_ATOMIC 0x3u
#define FAKE_PREFETCH 0x9u
#define FAKE_BULK 0x100u

/* Flags of memory. */
#define FAKE_MANAGED 0x2u
#define FAKE_PINNED 0x8u
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
/* The driver is being taken down: to use it ends the program. */
void fake_end(void);
/* The same, of a module that came with a library. */
void fake_library_unload(uint64_t context, uint64_t module);

uint64_t fake_alloc(uint64_t context, int device, size_t bytes, uint32_t flags);
uint64_t fake_host_alloc(uint64_t context, size_t bytes);
void fake_free(uint64_t address);
void fake_register(void *address, size_t bytes);
void fake_unregister(void *address);
void fake_ipc_get(uint64_t address, unsigned char handle[64]);
uint64_t fake_ipc_open(const unsigned char handle[64]);
void fake_ipc_close(uint64_t address);

/* Physical memory, by its handle, mapped in whole or in part; where it is. */
uint64_t fake_create(int device, size_t bytes);
uint64_t fake_map(uint64_t handle, size_t offset, size_t bytes);
void fake_unmap(uint64_t address, size_t bytes);
/* Another handle of what is mapped there. */
uint64_t fake_retain(uint64_t address);
/* A descriptor of an open file. */
int fake_export_file(uint64_t handle);
uint64_t fake_import_file(int file);
void fake_export_fabric(uint64_t handle, unsigned char shareable[64]);
uint64_t fake_import_fabric(const unsigned char shareable[64]);
/* Memory of a pool. */
uint64_t fake_pool_alloc(int device, size_t bytes);
void fake_pool_export(uint64_t address, unsigned char data[64]);
uint64_t fake_pool_import(const unsigned char data[64]);

void fake_launch(uint64_t context, uint64_t stream, uint64_t module, const char *kernel,
                 const struct fake_access *accesses, size_t count);
void fake_stream_wait(uint64_t context, uint64_t stream);
void fake_context_wait(uint64_t context);
/* Work in the stream goes on; the next stream of this number is another. */
void fake_stream_destroy(uint64_t context, uint64_t stream);
/* The same, put into a graph and run as part of it. */
void fake_graph_launch(uint64_t context, uint64_t stream, uint64_t module, const char *kernel,
                       const struct fake_access *accesses, size_t count);
/* Launches in the stream meanwhile become a graph, which runs when it is launched. Nothing else may be done with
 * the stream: it ends the program. */
void fake_capture(uint64_t stream);
void fake_capture_end(uint64_t stream);
void fake_captured_launch(uint64_t context, uint64_t stream);
/* How many launches ran in modules that were patched, or with calls. */
unsigned fake_patched_launches(void);
/* How often the Sanitizer patched a module. */
unsigned fake_patchings(void);

/* --- what NVBit needs ---------------------------------------------------------------------------------------------- */

/* Function that is called before an instruction. */
struct fake_call {
    int is_bulk;
    uint64_t launch, pc;
    uint32_t kind, bytes;
};

struct fake_hooks {
    void (*event)(void *context, int is_exit, const char *name, void *parameters);
    void (*context)(void *context, int is_begin);
    void (*node)(void *context, void *function, void *stream, uint64_t launch);
    int (*call_at)(void *function, uint64_t offset, struct fake_call *call);
};

void fake_hook(const struct fake_hooks *hooks);
/* A function; of a kernel of a library, which the driver takes instead of one, its function. */
void *fake_function(const void *function_or_kernel);
const char *fake_function_name(const void *function);
uint64_t fake_function_address(const void *function);
int fake_dump(const void *function, const char *file);
/* Argument of the calls of a kernel in a graph, in one launch of it. */
void fake_set_node(uint64_t launch, uint64_t value);

#ifdef __cplusplus
}
#endif

#endif
