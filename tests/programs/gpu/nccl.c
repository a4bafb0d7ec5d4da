/* nccl: communicates by a pretended NCCL on all kinds of communicators, beside MPI. 4 ranks. */
#include "nccl_with_mpi.h"

static char from[4096], to[4096];

static void collectives(ncclComm_t comm) {
    for (int i = 0; i < 3; i++) {
        NCCL(ncclAllReduce(from, to, 10, ncclFloat32, 0, comm, NULL));
    }
    NCCL(ncclBroadcast(from, to, 11, ncclFloat64, 1, comm, NULL));
    NCCL(ncclBcast(to, 13, ncclInt8, 0, comm, NULL));
    NCCL(ncclReduce(from, to, 17, ncclInt64, 0, 2, comm, NULL));
    NCCL(ncclAllGather(from, to, 19, ncclInt32, comm, NULL));
    NCCL(ncclReduceScatter(from, to, 23, ncclFloat16, 0, comm, NULL));
    NCCL(ncclAlltoAll(from, to, 5, ncclInt32, comm, NULL));
    NCCL(ncclGather(from, to, 29, ncclUint8, 3, comm, NULL));
    NCCL(ncclScatter(from, to, 31, ncclUint8, 3, comm, NULL));
    /* Fails, and moves nothing. */
    EXPECT(ncclReduce(from, to, 17, ncclInt64, 0, 99, comm, NULL) == ncclInvalidArgument);
}

/* A group in a group, with messages to the right. */
static void messages(ncclComm_t comm) {
    NCCL(ncclGroupStart());
    NCCL(ncclSend(from, 37, ncclInt8, (rank + 1) % size, comm, NULL));
    NCCL(ncclGroupStart());
    NCCL(ncclRecv(to, 37, ncclInt8, (rank + size - 1) % size, comm, NULL));
    NCCL(ncclGroupEnd());
    NCCL(ncclGroupEnd());
}

/* Parts by color; the second split leaves rank 3 out, and its parts are there late. */
static void splits(ncclComm_t comm) {
    ncclComm_t part, some;
    pretend_part(rank / 2, 2);
    NCCL(ncclCommSplit(comm, rank % 2, rank, &part, NULL));
    NCCL(ncclAllReduce(from, to, 41, ncclFloat16, 0, part, NULL));
    pretend_part(rank, 3);
    pretend_late(1);
    int code = ncclCommSplit(comm, rank == 3 ? NCCL_SPLIT_NOCOLOR : 5, rank, &some, NULL);
    pretend_late(0);
    EXPECT(code == (rank == 3 ? ncclSuccess : ncclInProgress));
    if (rank != 3) {
        NCCL(ncclAllReduce(from, to, 43, ncclInt8, 0, some, NULL));
        NCCL(ncclCommDestroy(some));
    } else {
        EXPECT(!some);
    }
    NCCL(ncclCommAbort(part));
}

/* Without rank 0, which does not call. */
static void shrink(ncclComm_t comm) {
    ncclComm_t rest;
    int excluded[] = {0};
    if (rank > 0) {
        NCCL(ncclCommShrink(comm, excluded, 1, &rest, NULL, 0));
        NCCL(ncclBroadcast(from, to, 47, ncclInt8, 0, rest, NULL));
        NCCL(ncclCommDestroy(rest));
    }
}

/* One communicator of each process, of 3 devices. */
static void own_devices(void) {
    ncclComm_t comms[3];
    int devices[] = {0, 1, 2};
    NCCL(ncclCommInitAll(comms, 3, devices));
    NCCL(ncclGroupStart());
    for (int i = 0; i < 3; i++) {
        NCCL(ncclAllReduce(from, to, 53, ncclInt8, 0, comms[i], NULL));
    }
    NCCL(ncclGroupEnd());
    for (int i = 0; i < 3; i++) {
        NCCL(ncclCommDestroy(comms[i]));
    }
}

/* Two devices of each process in one communicator, which is made in a group. */
static void two_devices(void) {
    ncclComm_t comms[2];
    ncclUniqueId ids[] = {shared_id(), shared_id()};
    NCCL(ncclGroupStart());
    NCCL(ncclCommInitRankScalable(&comms[0], 2 * size, 2 * rank, 2, ids, NULL));
    NCCL(ncclCommInitRankScalable(&comms[1], 2 * size, 2 * rank + 1, 2, ids, NULL));
    NCCL(ncclGroupEnd());
    NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++) {
        NCCL(ncclBroadcast(from, to, 59, ncclInt8, 0, comms[i], NULL));
    }
    /* From the first device of each process to the second one of the next. */
    NCCL(ncclSend(from, 67, ncclInt8, (2 * rank + 3) % (2 * size), comms[0], NULL));
    NCCL(ncclRecv(to, 67, ncclInt8, (2 * rank + 2 * size - 2) % (2 * size), comms[1], NULL));
    NCCL(ncclGroupEnd());
    NCCL(ncclCommFinalize(comms[0]));
    NCCL(ncclCommDestroy(comms[0]));
    NCCL(ncclCommDestroy(comms[1]));
}

/* Fails in a group, and stores no communicator. */
static void not_made(void) {
    ncclComm_t none = (ncclComm_t)8;
    ncclUniqueId id = shared_id();
    NCCL(ncclGroupStart());
    EXPECT(ncclCommInitRankConfig(&none, size, id, rank, (ncclConfig_t *)from) == ncclInvalidArgument);
    NCCL(ncclGroupEnd());
    EXPECT(none == (ncclComm_t)8);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(size == 4);
    ncclComm_t all;
    NCCL(ncclCommInitRank(&all, size, shared_id(), rank));
    collectives(all);
    /* Off: counted by the library, and in no table. */
    MPI_Pcontrol(0);
    NCCL(ncclAllReduce(from, to, 61, ncclInt8, 0, all, NULL));
    MPI_Pcontrol(1);
    messages(all);
    splits(all);
    MPI_Allreduce(MPI_IN_PLACE, to, 3, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    shrink(all);
    own_devices();
    two_devices();
    not_made();
    NCCL(ncclCommDestroy(NULL));
    NCCL(ncclCommDestroy(all));
    int made = 3 + 6 + 8 + 1 + 2 + 1 + (rank != 3) + (rank > 0) + 3 + 2 + 2;
    EXPECT(pretended_calls() == made + 1);
    MPI_Finalize();
    return 0;
}
