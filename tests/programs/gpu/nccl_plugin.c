/* A library that is linked with NCCL, as PyTorch's is, for a program that loads it for itself alone. */
#include "pretended_nccl.h"

/* A communicator of this process alone; 0 if all goes well. */
int run_plugin(void) {
    ncclUniqueId id;
    ncclComm_t comm;
    char from[71], to[71];
    return ncclGetUniqueId(&id) || ncclCommInitRank(&comm, 1, id, 0)
        || ncclAllReduce(from, to, sizeof from, ncclInt8, 0, comm, 0) || ncclCommDestroy(comm)
        || pretended_calls() != 1;
}

/* A communicator for the program, and calls on it. */
void *plugin_comm(void) {
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    return ncclGetUniqueId(&id) || ncclCommInitRank(&comm, 1, id, 0) ? NULL : comm;
}

/* In a group of its own, as PyTorch calls NCCL. */
int plugin_reduce(void *comm, int count) {
    static char words[4096];
    return ncclGroupStart() || ncclAllReduce(words, words, (size_t)count, ncclInt8, 0, comm, 0) || ncclGroupEnd();
}

int plugin_end(void *comm) { return ncclCommDestroy(comm); }
