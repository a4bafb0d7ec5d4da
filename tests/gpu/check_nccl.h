// Header of the programs of scripts/gpu-check that use NCCL.
#ifndef CHECK_NCCL_H
#define CHECK_NCCL_H

#include "check.h"

#include <nccl.h>

#define CHECK_NCCL(call)                                                                                               \
    do {                                                                                                               \
        ncclResult_t status_ = (call);                                                                                 \
        if (status_ != ncclSuccess) {                                                                                  \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, ncclGetErrorString(status_));                \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                              \
        }                                                                                                              \
    } while (0)

#endif
