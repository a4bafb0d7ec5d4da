/* Interface between the parts of the fake driver. */
#ifndef PARTS_H
#define PARTS_H

#include "../fake.h"

/* Nothing of it is to meet a name of the program. */
#pragma GCC visibility push(hidden)

#define MOST 256

/* --- sanitizer.c --- */

/* As NVIDIA's headers have it, as far as it is played: of RESOURCE. */
struct memory_data {
    uint64_t address, bytes;
    void *context;
    int device;
    void *stream, *handle, *pool;
    uint32_t flags, permissions, visibility;
    int source;
};

/* Domains of its callbacks. */
enum { DRIVER = 1, RESOURCE = 3, SYNCHRONIZE = 4, LAUNCH = 5, GRAPHS = 10 };

void tell(uint32_t domain, uint32_t id, const void *data);
/* Returns whether it plays that of CUDA 13.1 or later, which has one more field in the data of contexts and streams. */
int has_green_contexts(void);
/* Parameters of the patches of a launch, and their owner. */
struct launch { const void *userdata; uint64_t module; };
/* The Sanitizer's handle of the NULL stream of a context. */
uint64_t null_stream(uint64_t context);

/* --- driver.c --- */

/* Not NULL with NVBit. */
extern const struct fake_hooks *hooks;
/* A call of the driver that only NVBit reports. */
void hooked(uint64_t context, const char *name, void *parameters, int is_exit);
void hooked_call(uint64_t context, const char *name, void *parameters);

/* --- contexts.c --- */

struct context { uint64_t context; int device; };
extern struct context contexts[8];
uint64_t context_of(int device);

struct module { uint64_t module; uint32_t instructions; int is_patched; const void *image; size_t bytes; };
extern struct module modules[MOST];
/* True while a launch in another stream than the NULL stream is reported. */
extern int in_own_stream;
void *function_of(uint64_t module, const char *name);
/* Handle of a function in a launch: the kernel of a library (`CUkernel`) in streams of odd numbers. */
void *launched_as(void *function, uint64_t stream);
uint64_t module_of(const void *function);
/* Where the code of a kernel is. */
uint64_t code(uint64_t module, const char *name, uint64_t *bytes);

void fatal(const char *why);
/* Returns whether FAKE_FAILS names it. */
int fails(const char *what);

static inline void *as_handle(uint64_t number) { return (void *)(uintptr_t)number; }

/* --- memory.c --- */

/* Addresses for memory, which the Sanitizer reports by that event, if by any. */
uint64_t placed(size_t bytes, int device, uint32_t event);
void unplaced(uint64_t address);
/* A call of the driver, by its number. */
void called(uint32_t id, void *parameters);

/* --- streams.c --- */

/* Returns whether what is launched in the stream goes into a graph. */
int is_captured(uint64_t stream);
/* Ends the program if a graph is being launched: the driver holds its locks then, and may not be called. */
void may_be_called(void);
/* Runs what waits in the stream; in all streams, if it is the NULL stream of a context. */
void drain(uint64_t stream);
/* The context of a stream that was used; 0 of another. */
uint64_t context_of_stream(uint64_t stream);
/* Returns whether kernels of the module wait in any stream. */
int kernels_wait(uint64_t module);
/* Wait in the stream; the bytes are copied at once, as from pageable memory. */
int write_in(uint64_t stream, void *target, const void *source, size_t bytes);
int clear_in(uint64_t stream, void *target, size_t bytes);
/* Waits for the stream first. CUDA's error. */
int read_after(uint64_t stream, void *target, const void *source, size_t bytes);
/* Waits for nothing, as the Sanitizer's reads: what is written may be there the next time. CUDA's error. */
int read_now(void *target, const void *source, size_t bytes);

#pragma GCC visibility pop

#endif
