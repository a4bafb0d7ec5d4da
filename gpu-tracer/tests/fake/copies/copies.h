/* A fake driver with CUPTI in it: memory of the process, of which it knows kinds, and calls that copy it. Types are those of cuda.h
 * as far as they matter. */
#ifndef COPIES_H
#define COPIES_H

#include <stddef.h>
#include <stdint.h>

/* Loads what CUDA_INJECTION64_PATH names, as the driver does. */
int cuInit(unsigned flags);
/* The device of the current context: all that is there of contexts. */
void fake_use_device(int device);

/* From now on the driver has a lock of its own while it reports calls of this thread, and takes long to name devices. */
void fake_report_locked(void);

/* Memory on the current device; of the host; managed. It can be read and written in any case. */
void *fake_alloc_device(size_t bytes);
void *fake_alloc_pinned(size_t bytes);
void *fake_alloc_managed(size_t bytes);

/* An array of that format of cuda.h; 0 has none that the driver says. */
void *fake_alloc_array(unsigned format, unsigned channels);

/* An end of a block: 1 for memory, with the elements of a row and the rows of a slice, 2 for an array. */
struct fake_operand {
    int kind;
    void *address;
    size_t row, rows;
    size_t more;
};

struct fake_block {
    struct fake_operand from, to;
    size_t width, height, depth;
    int order;
    unsigned flags;
};

/* 2, 4, 1: as of cuda.h, device, unified and host. */
struct fake_rectangle {
    size_t from_x, from_y;
    int from_kind;
    const void *from_host, *from_device, *from_array;
    size_t from_pitch, to_x, to_y;
    int to_kind;
    void *to_host, *to_device, *to_array;
    size_t to_pitch, width, height;
};

int cuMemcpy(void *to, const void *from, size_t bytes);
int cuMemcpyAsync(void *to, const void *from, size_t bytes, void *stream);
int cuMemcpyAsync_ptsz(void *to, const void *from, size_t bytes, void *stream);
int cuMemcpyHtoD_v2(void *to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes);
int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *stream);
/* Calls cuMemcpyPeerAsync. */
int cuMemcpyPeer(void *to, void *to_context, const void *from, void *from_context, size_t bytes);
int cuMemcpyPeerAsync(void *to, void *to_context, const void *from, void *from_context, size_t bytes, void *stream);
int cuMemcpyHtoA_v2(void *array, size_t offset, const void *from, size_t bytes);
int cuMemcpy2D_v2(const struct fake_rectangle *copy);
int cuMemcpyBatchAsync_v2(void **to, void **from, size_t *sizes, size_t count, void *attributes, size_t *indices,
                          size_t attribute_count, void *stream);
int cuMemcpy3DBatchAsync_v2(size_t count, struct fake_block *blocks, unsigned long long flags, void *stream);
int cuMemsetD32_v2(void *to, unsigned value, size_t count);
int cuLaunchKernel(void *function, void *stream);
int cuGraphLaunch(void *graph, void *stream);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);

#endif
