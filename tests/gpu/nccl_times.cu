// Copies by NCCL on a communicator of one rank, timed by the program itself, too: what nccl-times.csv is to have. Graphs that were captured
// with the profiler have to do what they did without.
#include "check_nccl.h"

static const size_t LARGE = 512 << 20;
static const int CALLS = 16;

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    begin_cuda(count, arguments, "rank,comm,call,calls,untimed,gpu_s");
    char *from = device_memory<char>(LARGE), *to = device_memory<char>(LARGE), byte = 0;
    ncclUniqueId id;
    ncclComm_t comm;
    CHECK_NCCL(ncclGetUniqueId(&id));
    CHECK_NCCL(ncclCommInitRank(&comm, 1, id, 0));
    cudaStream_t stream;
    cudaEvent_t begin, end_;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end_));
    // The first call sets things up.
    CHECK_NCCL(ncclAllReduce(from, to, LARGE, ncclInt8, ncclSum, comm, stream));
    CHECK(cudaStreamSynchronize(stream));
    float ms = 0, first_ms = 0;
    for (int call = 0; call < CALLS; call++) {
        // Work of the program's own before is no time of the call.
        CHECK(cudaMemsetAsync(from, call, LARGE, stream));
        CHECK(cudaEventRecord(begin, stream));
        CHECK_NCCL(ncclAllGather(from, to, LARGE, ncclInt8, comm, stream));
        CHECK(cudaEventRecord(end_, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventElapsedTime(&first_ms, begin, end_));
        ms += first_ms;
    }
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK_NCCL(ncclReduce(from, to, LARGE, ncclInt8, ncclSum, 0, comm, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaMemset(from, 77, LARGE));
    CHECK(cudaMemset(to, 0, LARGE));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&byte, to + LARGE - 1, 1, cudaMemcpyDeviceToHost));
    if (byte != 77) {
        fprintf(stderr, "the graph has not copied\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    CHECK_NCCL(ncclCommDestroy(comm));
    fprintf(expected, "%d,N1-*,ncclAllReduce,1,0,*\n", rank);
    fprintf(expected, "%d,N1-*,ncclAllGather,%d,0,%.9f\n", rank, CALLS, ms / 1000);
    fprintf(expected, "%d,N1-*,ncclReduce,0,1,0\n", rank);
    end();
    return 0;
}
