// Communicates by NCCL on communicators of one rank, since NCCL takes a GPU for one rank alone: what calls.csv is to have.
#include "check_nccl.h"

static void expect_calls(const char *comm, const char *call, int calls, int bytes) {
    // What moves bytes has its buffers in the device's memory.
    fprintf(expected, "%d,%s,%s,%s,%d,%d\n", rank, comm, call, bytes ? "device" : "host", calls, bytes);
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    begin_cuda(count, arguments, "rank,comm,call,memory,calls,bytes");
    int version = 0;
    CHECK_NCCL(ncclGetVersion(&version));
    if (rank == 0) {
        printf("NCCL %d\n", version);
    }
    char *from = device_memory<char>(WHOLE), *to = device_memory<char>(WHOLE);
    ncclUniqueId id;
    ncclComm_t comm, part;
    CHECK_NCCL(ncclGetUniqueId(&id));
    CHECK_NCCL(ncclCommInitRank(&comm, 1, id, 0));
    for (int call = 0; call < 3; call++) {
        CHECK_NCCL(ncclAllReduce(from, to, 10, ncclFloat32, ncclSum, comm, nullptr));
    }
    CHECK_NCCL(ncclAllGather(from, to, 19, ncclInt32, comm, nullptr));
    CHECK_NCCL(ncclReduceScatter(from, to, 23, ncclFloat16, ncclSum, comm, nullptr));
    CHECK_NCCL(ncclGroupStart());
    CHECK_NCCL(ncclSend(from, 37, ncclInt8, 0, comm, nullptr));
    CHECK_NCCL(ncclRecv(to, 37, ncclInt8, 0, comm, nullptr));
    CHECK_NCCL(ncclGroupEnd());
    CHECK_NCCL(ncclCommSplit(comm, 5, 0, &part, nullptr));
    CHECK_NCCL(ncclAllReduce(from, to, 41, ncclFloat64, ncclMax, part, nullptr));
    CHECK(cudaDeviceSynchronize());
    CHECK_NCCL(ncclCommDestroy(part));
    CHECK_NCCL(ncclCommDestroy(comm));
    expect_calls("N1-*", "ncclCommInitRank", 1, 0);
    expect_calls("N1-*", "ncclAllReduce", 3, 3 * 10 * 4);
    expect_calls("N1-*", "ncclAllGather", 1, 19 * 4);
    expect_calls("N1-*", "ncclReduceScatter", 1, 23 * 2);
    expect_calls("N1-*", "ncclSend", 1, 37);
    expect_calls("N1-*", "ncclRecv", 1, 37);
    expect_calls("N1-*", "ncclGroupEnd", 1, 0);
    expect_calls("N1-*", "ncclCommSplit", 1, 0);
    expect_calls("N1-*", "ncclCommDestroy", 1, 0);
    expect_calls("N1-*_s1.5", "ncclAllReduce", 1, 41 * 8);
    expect_calls("N1-*_s1.5", "ncclCommDestroy", 1, 0);
    end();
    return 0;
}
