// Functions of CUDA's driver, found at run time: the library is on the machines that have a GPU alone.
#ifndef DRIVER_H
#define DRIVER_H

#include "check.h"

#include <cuda.h>
#include <dlfcn.h>

static inline void *driver_function(const char *name) {
    static void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *function = library ? dlsym(library, name) : nullptr;
    if (!function) {
        fprintf(stderr, "CUDA's driver has no %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return function;
}

#define NAME_OF(name) #name
// The name may be a macro for the version that cuda.h declares.
#define DRIVER(name) ((decltype(&name))driver_function(NAME_OF(name)))

#define CHECK_DRIVER(call)                                                                                             \
    do {                                                                                                               \
        CUresult status_ = (call);                                                                                     \
        if (status_ != CUDA_SUCCESS) {                                                                                 \
            fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, (int)status_);                         \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                              \
        }                                                                                                              \
    } while (0)

#endif
