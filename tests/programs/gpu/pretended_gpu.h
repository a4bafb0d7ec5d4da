/* What the pretended driver of mpisee-bench's tests has for the pretended NCCL beside it. */
#ifndef PRETENDED_GPU_H
#define PRETENDED_GPU_H
#include <stddef.h>

/* Where the bytes of memory on a GPU are for the processor; NULL if the memory is not that of a GPU that this process has. */
typedef void *pretended_bytes_function(const void *address, size_t bytes);

/* Work that a stream does behind what it does already, on a thread of its own; then it frees the argument. */
typedef int pretended_enqueue_function(void *stream, void (*work)(void *), void *argument);

/* The GPU that this process has taken; -1 if it has none. */
typedef int pretended_device_function(void);

#endif
