/* Interface between NVBit's part of the tracer, nvbit/tool.cpp, and the rest of it, src/backends/nvbit. The tracer is in
 * libmpisee_gpu.so, which tool.cpp loads; NVBit is C++ and linked into libmpisee_gpu_nvbit.so, which CUDA's driver
 * loads. src/generated/layer.rs has it in Rust: after a change, `cargo xtask generate`.
 */
#ifndef MPISEE_NVBIT_LAYER_H
#define MPISEE_NVBIT_LAYER_H

#include <stdint.h>

/* Raised with every change of what is below. */
#define MPISEE_NVBIT_LAYER 4u

/* Kinds of calls of the driver: those of DriverCall in src/events/calls.rs, and further ones. */
enum mpisee_nvbit_call {
    MPISEE_ALLOC = 1,
    MPISEE_ALLOC_PITCH = 2,
    MPISEE_ALLOC_MANAGED = 3,
    MPISEE_ALLOC_HOST = 4,
    MPISEE_ALLOC_ASYNC = 5,
    MPISEE_POOL_IMPORT = 6,
    MPISEE_FREE = 7,
    MPISEE_HOST_REGISTER = 8,
    MPISEE_HOST_UNREGISTER = 9,
    MPISEE_IPC_GET = 10,
    MPISEE_IPC_OPEN = 11,
    MPISEE_IPC_CLOSE = 12,
    MPISEE_CREATE = 13,
    MPISEE_MAP = 14,
    MPISEE_UNMAP = 15,
    MPISEE_IMPORT = 16,
    MPISEE_EXPORT = 17,
    MPISEE_RETAIN = 18,
    MPISEE_POOL_EXPORT = 19,
    MPISEE_LAUNCH = 32,         /* of mpisee_nvbit_launch */
    MPISEE_GRAPH_KERNEL = 33,   /* the same: a kernel is put into a graph */
    MPISEE_UNLOAD_MODULE = 34,  /* the module */
    MPISEE_UNLOAD_LIBRARY = 35, /* the library */
    MPISEE_WAITED_STREAM = 36,  /* of mpisee_nvbit_launch, without a function */
    MPISEE_WAITED_CONTEXT = 37,
    MPISEE_WAITED = 38,      /* for something else */
    MPISEE_GRAPH_LAUNCH = 39 /* of mpisee_nvbit_launch, without a function */
};

struct mpisee_nvbit_launch {
    void *function;
    void *stream;
    uint32_t is_per_thread; /* whether no stream is the one of the thread */
};

/* Returns whether calls are to be put into a function that a kernel may run, given its name and the begin and length of
 * its code. */
typedef int (*mpisee_nvbit_selects)(void *data, void *function, const char *name, uint64_t begin, uint64_t bytes);

/* Functions of NVBit for the tracer. */
struct mpisee_nvbit {
    uint32_t version;
    /* Puts calls into a kernel and the functions that it may call, as `selects` says; returns how many. */
    uint32_t (*instrument)(void *context, void *function, mpisee_nvbit_selects selects, void *data);
    /* Sets whether the next launches of a kernel run with these calls. */
    void (*enable)(void *context, void *function, int on);
    /* Sets the argument of the calls of the next launch; of a kernel in a graph, with its stream and launch. */
    void (*set)(void *context, void *function, uint64_t value, void *stream, uint64_t launch);
    /* Where the code of a function is. That of a kernel of a library, which may stand for its function, is the same. */
    uint64_t (*address)(void *context, void *function);
    /* The mangled name of a function; NVBit's memory. */
    const char *(*name)(void *context, void *function);
    /* Writes the image of the module that a function is of to a file, which stays empty if there is none. */
    void (*image)(void *context, void *function, const char *file);
};

/* Functions of the tracer for NVBit's events. */
struct mpisee_nvbit_events {
    void (*call)(void *context, int is_exit, uint32_t what, const void *parameters);
    /* A kernel of a graph is about to run. The driver is in the middle of launching the graph: none of its functions may be called. */
    void (*node)(void *context, void *function, void *stream, uint64_t launch);
    void (*context_end)(void *context);
};

/* The tracer's `mpisee_gpu_nvbit_start`; 0 if it wants no events. */
typedef int (*mpisee_nvbit_start)(const struct mpisee_nvbit *nvbit, struct mpisee_nvbit_events *events);

#endif
