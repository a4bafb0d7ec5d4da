/* nccl_times DRIVER: calls of NCCL in streams of a pretended driver, where an operation takes a microsecond for each element. 2 ranks. */
#include "nccl_with_mpi.h"
#include <dlfcn.h>

#define FUNCTION(type, name, ...) type (*name)(__VA_ARGS__) = (type (*)(__VA_ARGS__))dlsym(library, #name)
static char words[4096];

static ncclComm_t communicator(int device) {
    ncclComm_t comm;
    pretend_device(device);
    NCCL(ncclCommInitRank(&comm, size, shared_id(), rank));
    return comm;
}

static void reduce(int count, ncclComm_t comm, cudaStream_t stream) {
    NCCL(ncclAllReduce(words, words, count, ncclInt8, 0, comm, stream));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    EXPECT(library);
    FUNCTION(int, cuInit, unsigned);
    FUNCTION(void, pretend_context, int, int);
    FUNCTION(void *, pretend_stream, int);
    FUNCTION(void, pretend_work, void *, int, double);
    FUNCTION(void, pretend_capture, void *, int);
    FUNCTION(void, pretend_green, void *, int);
    FUNCTION(void, pretend_capture_elsewhere, int);
    FUNCTION(void, pretend_busy, int);
    FUNCTION(void, pretend_failure, int);
    FUNCTION(void, pretend_reset, void);
    FUNCTION(int, pretend_live_events, void);
    FUNCTION(int, pretend_misuses, void);
    EXPECT(!cuInit(0));
    pretend_context(0, 1);
    void *one = pretend_stream(0), *two = pretend_stream(0), *other = pretend_stream(1);
    ncclComm_t first = communicator(0), second = communicator(1);

    /* The program's own work before is no time of the call. */
    pretend_work(one, 0, 5);
    reduce(67 + rank, first, one);
    reduce(65, first, two);
    /* In a group alone; beside others; and of two communicators, on two devices. */
    NCCL(ncclGroupStart());
    reduce(131, first, one);
    NCCL(ncclGroupEnd());
    NCCL(ncclGroupStart());
    NCCL(ncclSend(words, 73, ncclInt8, 1 - rank, first, one));
    NCCL(ncclRecv(words, 73, ncclInt8, 1 - rank, first, two));
    NCCL(ncclBroadcast(words, words, 257, ncclInt8, 0, second, other));
    NCCL(ncclGroupEnd());
    /* The default stream is that of the communicator's device. */
    reduce(521, first, NULL);
    reduce(523, second, NULL);
    /* Into a graph. */
    pretend_capture(one, 1);
    reduce(1031, first, one);
    pretend_capture(one, 0);
    /* In a part of the GPU. */
    pretend_green(one, 1);
    reduce(1033, first, one);
    pretend_green(one, 0);
    /* The GPU fails, and the driver has no time. */
    pretend_failure(1);
    reduce(4099, first, one);
    pretend_failure(0);
    /* While another thread captures, and the GPU is busy. */
    pretend_capture_elsewhere(1);
    pretend_busy(1);
    reduce(2053, first, one);
    reduce(2063, first, two);
    pretend_busy(0);
    pretend_capture_elsewhere(0);
    /* Fails. */
    EXPECT(ncclAllReduce(words, words, 3, 77, 0, first, one) == ncclInvalidArgument);
    NCCL(ncclCommDestroy(first));
    NCCL(ncclCommDestroy(second));
    EXPECT(!pretend_live_events());

    /* Far ahead of the GPU: what finds no room has no time, and there is room again when the GPU has caught up. */
    ncclComm_t ahead = communicator(0);
    pretend_busy(1);
    for (int i = 0; i < 5000; i++) {
        reduce(16500, ahead, one);
    }
    pretend_busy(0);
    reduce(16500, ahead, one);
    reduce(16500, ahead, one);
    NCCL(ncclCommDestroy(ahead));
    EXPECT(!pretend_live_events());

    /* Not done at the end, and then gone. */
    ncclComm_t last = communicator(0), twin = communicator(0);
    reduce(37, last, one);
    /* Which of the two takes how long nobody can tell. */
    NCCL(ncclGroupStart());
    reduce(43, last, one);
    reduce(47, twin, one);
    NCCL(ncclGroupEnd());
    pretend_busy(1);
    reduce(41, last, one);
    EXPECT(!pretend_misuses());
    pretend_reset();
    MPI_Finalize();
    EXPECT(!pretend_misuses() && !pretend_live_events());
    return 0;
}
