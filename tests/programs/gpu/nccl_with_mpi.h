/* Begin of a program of MPI and NCCL. */
#pragma once
#include "../program.h"
#include "pretended_nccl.h"

#define NCCL(call) EXPECT((call) == ncclSuccess)

/* A unique id that all ranks have. */
static ncclUniqueId shared_id(void) {
    ncclUniqueId id;
    if (rank == 0) {
        NCCL(ncclGetUniqueId(&id));
    }
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    return id;
}
