/* nccl_gpus DRIVER: one process with two GPUs in a communicator, of which one ends its part while the other has work left; then a group that
 * has a call on a communicator of which the profiler knows nothing, in the stream of another one. */
#include "pretended_nccl.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define NCCL(call) \
    if ((call) != ncclSuccess) { \
        fprintf(stderr, "%s failed\n", #call); \
        exit(9); \
    }
#define FUNCTION(type, name, ...) type (*name)(__VA_ARGS__) = (type (*)(__VA_ARGS__))dlsym(driver, #name)

static char words[8192];

static void all_reduce(size_t bytes, ncclComm_t comm, void *stream) {
    NCCL(ncclAllReduce(words, words, bytes, ncclInt8, 0, comm, stream));
}

int main(int argc, char **argv) {
    void *driver = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!driver) {
        return 8;
    }
    FUNCTION(int, cuInit, unsigned);
    FUNCTION(void, pretend_context, int, int);
    FUNCTION(void *, pretend_stream, int);
    FUNCTION(void, pretend_busy, int);
    cuInit(0);
    pretend_context(0, 1);
    pretend_context(1, 0);
    void *streams[2] = {pretend_stream(0), pretend_stream(1)};
    ncclUniqueId id;
    ncclComm_t comms[2], known, unknown;
    NCCL(ncclGetUniqueId(&id));
    NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++) {
        pretend_device(i);
        NCCL(ncclCommInitRank(&comms[i], 2, id, i));
    }
    NCCL(ncclGroupEnd());
    all_reduce(67, comms[0], streams[0]);
    pretend_busy(1);
    for (int i = 0; i < 10; i++) {
        all_reduce(300, comms[1], streams[1]);
    }
    NCCL(ncclCommDestroy(comms[0]));
    pretend_busy(0);
    all_reduce(1200, comms[1], streams[1]);
    NCCL(ncclCommDestroy(comms[1]));

    pretend_device(0);
    NCCL(ncclGetUniqueId(&id));
    NCCL(ncclCommInitRank(&known, 1, id, 0));
    void *nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int) =
        (ncclResult_t (*)(ncclComm_t *, int, ncclUniqueId, int))dlsym(nccl, "ncclCommInitRank");
    NCCL(ncclGetUniqueId(&id));
    NCCL(init(&unknown, 1, id, 0));
    NCCL(ncclGroupStart());
    all_reduce(2100, unknown, streams[0]);
    all_reduce(4200, known, streams[0]);
    NCCL(ncclGroupEnd());
    all_reduce(4300, known, streams[0]);
    NCCL(ncclCommDestroy(known));
    return 0;
}
