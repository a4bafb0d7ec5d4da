// Copies of known sizes between host and GPU, and messages with copies beside them: what copies.csv and staged.csv are to have. Two
// ranks may share a GPU. With a second argument it prints what calls cost instead, in nanoseconds.
#include "check.h"

#include <algorithm>
#include <cooperative_groups.h>
#include <cstring>
#include <map>
#include <vector>

static const size_t BYTES = 1 << 20;
static const int BATCHES = 51, CALLS = 200;

static std::map<std::string, std::pair<uint64_t, uint64_t>> sums;

static void expect_row(const std::string &key, uint64_t calls, uint64_t bytes) {
    sums[key].first += calls;
    sums[key].second += bytes;
}

// A copy: `from` and `to` are kinds of memory, empty where there is none.
static void expect_copy(const char *mode, const char *from, const char *to, uint64_t bytes, uint64_t calls = 1) {
    expect_row(std::string("copies,,,") + mode + "," + from + "," + to, calls, bytes);
}

static void expect_launches(uint64_t calls) { expect_copy("stream", "", "", 0, calls); }

// Copies beside messages on the communicator.
static void expect_staged(const char *direction, const char *mode, const char *memory, uint64_t bytes) {
    expect_row(std::string("staged,W_d1,") + direction + "," + mode + "," + memory + ",", 1, bytes);
}

__global__ void nothing(char *) {}
__global__ void together(char *) { cooperative_groups::this_grid().sync(); }

struct Memory {
    char *host, *device, *other, *pinned, *managed;
    cudaStream_t stream;
};

static Memory make() {
    Memory it{};
    it.host = (char *)calloc(1, BYTES);
    CHECK(cudaMalloc(&it.device, BYTES));
    CHECK(cudaMalloc(&it.other, BYTES));
    CHECK(cudaMallocHost(&it.pinned, BYTES));
    CHECK(cudaMallocManaged(&it.managed, BYTES));
    CHECK(cudaStreamCreateWithFlags(&it.stream, cudaStreamNonBlocking));
    return it;
}

static void blocking(const Memory &it) {
    CHECK(cudaMemcpy(it.device, it.host, 1001, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(it.device, it.host, 1002, cudaMemcpyDefault));
    expect_copy("blocking", "host", "device", 1001 + 1002, 2);
    CHECK(cudaMemcpy(it.host, it.device, 1003, cudaMemcpyDeviceToHost));
    expect_copy("blocking", "device", "host", 1003);
    CHECK(cudaMemcpy2D(it.host, 100, it.device, 128, 100, 11, cudaMemcpyDeviceToHost));
    expect_copy("blocking", "device", "host", 100 * 11);
    CHECK(cudaMemcpy(it.other, it.device, 1007, cudaMemcpyDeviceToDevice));
    expect_copy("blocking", "device", "device", 1007);
    CHECK(cudaMemcpy(it.managed, it.device, 1009, cudaMemcpyDefault));
    expect_copy("blocking", "device", "managed", 1009);
    CHECK(cudaMemcpy(it.device, it.pinned, 1010, cudaMemcpyHostToDevice));
    expect_copy("blocking", "pinned", "device", 1010);
    CHECK(cudaMemset(it.device, 1, 1033));
    expect_copy("blocking", "", "device", 1033);
    cudaArray_t array;
    cudaChannelFormatDesc kind = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&array, &kind, 64, 8));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, it.host, 64 * 4, 64 * 4, 8, cudaMemcpyHostToDevice));
    expect_copy("blocking", "host", "device", 64 * 4 * 8);
    CHECK(cudaFreeArray(array));
}

static void in_streams(const Memory &it) {
    for (int again = 0; again < 2; again++) {
        CHECK(cudaMemcpyAsync(it.device, it.pinned, 1013, cudaMemcpyHostToDevice, it.stream));
    }
    expect_copy("stream", "pinned", "device", 2 * 1013, 2);
    CHECK(cudaMemcpyAsync(it.pinned, it.device, 1019, cudaMemcpyDeviceToHost, it.stream));
    CHECK(cudaMemcpyAsync(it.pinned, it.device, 1049, cudaMemcpyDeviceToHost, cudaStreamPerThread));
    expect_copy("stream", "device", "pinned", 1019 + 1049, 2);
    CHECK(cudaMemcpyAsync(it.other, it.device, 1021, cudaMemcpyDeviceToDevice, it.stream));
    expect_copy("stream", "device", "device", 1021);
    CHECK(cudaMemcpyAsync(it.device, it.host, 1031, cudaMemcpyHostToDevice, it.stream));
    expect_copy("stream", "host", "device", 1031);
    CHECK(cudaMemcpy2DAsync(it.pinned, 50, it.device, 64, 50, 13, cudaMemcpyDeviceToHost, it.stream));
    expect_copy("stream", "device", "pinned", 50 * 13);
    CHECK(cudaMemsetAsync(it.device, 2, 1039, it.stream));
    expect_copy("stream", "", "device", 1039);
#if CUDART_VERSION >= 13000
    void *to[] = {it.device, it.device + 4096};
    const void *from[] = {it.pinned, it.pinned + 4096};
    size_t sizes[] = {1051, 1061}, first = 0;
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    CHECK(cudaMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, it.stream));
    expect_copy("stream", "pinned", "device", 1051 + 1061, 2);
#endif
    CHECK(cudaStreamSynchronize(it.stream));
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
}

static void launches(const Memory &it) {
    for (int again = 0; again < 7; again++) {
        nothing<<<1, 32, 0, it.stream>>>(it.device);
    }
    char *argument = it.device;
    void *arguments[] = {&argument};
    CHECK(cudaLaunchCooperativeKernel((const void *)together, dim3(1), dim3(32), arguments, 0, it.stream));
    expect_launches(7 + 1);
    // What goes into a graph is not counted, but how often that is launched.
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CHECK(cudaStreamBeginCapture(it.stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(it.device, it.pinned, 2003, cudaMemcpyHostToDevice, it.stream));
    nothing<<<1, 32, 0, it.stream>>>(it.device);
    CHECK(cudaStreamEndCapture(it.stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int again = 0; again < 3; again++) {
        CHECK(cudaGraphLaunch(executable, it.stream));
    }
    expect_launches(3);
    CHECK(cudaStreamSynchronize(it.stream));
}

// Messages on a communicator, with copies right before and after.
static void staged(const Memory &it, MPI_Comm comm) {
    const int other = 1 - rank;
    if (rank == 0) {
        CHECK(cudaMemcpy(it.host, it.device, 3001, cudaMemcpyDeviceToHost));
        expect_copy("blocking", "device", "host", 3001);
        MPI_Send(it.host, 3001, MPI_BYTE, other, 0, comm);
        expect_staged("sent", "blocking", "host", 3001);
        MPI_Send(it.host, 3001, MPI_BYTE, other, 0, comm); // once more, without a copy
    } else {
        for (int again = 0; again < 2; again++) {
            MPI_Recv(it.host, 3001, MPI_BYTE, other, 0, comm, MPI_STATUS_IGNORE);
        }
        CHECK(cudaMemcpy(it.device, it.host, 3001, cudaMemcpyHostToDevice));
        expect_copy("blocking", "host", "device", 3001);
        expect_staged("received", "blocking", "host", 3001);
    }
    // A halo: two parts of what one copy brings, both ways at once.
    char *received = it.pinned + BYTES / 2;
    CHECK(cudaMemcpyAsync(it.pinned, it.device, 3011, cudaMemcpyDeviceToHost, it.stream));
    CHECK(cudaStreamSynchronize(it.stream));
    expect_copy("stream", "device", "pinned", 3011);
    MPI_Request requests[4];
    MPI_Irecv(received, 1000, MPI_BYTE, other, 1, comm, &requests[0]);
    MPI_Irecv(received + 1000, 500, MPI_BYTE, other, 2, comm, &requests[1]);
    MPI_Isend(it.pinned, 1000, MPI_BYTE, other, 1, comm, &requests[2]);
    MPI_Isend(it.pinned + 1000, 500, MPI_BYTE, other, 2, comm, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    expect_staged("sent", "stream", "pinned", 1000);
    expect_staged("sent", "stream", "pinned", 500);
    CHECK(cudaMemcpyAsync(it.device, received, 1500, cudaMemcpyHostToDevice, it.stream));
    CHECK(cudaStreamSynchronize(it.stream));
    expect_copy("stream", "pinned", "device", 1500);
    expect_staged("received", "stream", "pinned", 1000);
    expect_staged("received", "stream", "pinned", 500);
    CHECK(cudaMemcpy(it.host, it.device, 4000, cudaMemcpyDeviceToHost));
    expect_copy("blocking", "device", "host", 4000);
    MPI_Allreduce(it.host, it.host + 8192, 4000, MPI_BYTE, MPI_BOR, comm);
    expect_staged("sent", "blocking", "host", 4000);
    CHECK(cudaMemcpy(it.device, it.host + 8192, 4000, cudaMemcpyHostToDevice));
    expect_copy("blocking", "host", "device", 4000);
    expect_staged("received", "blocking", "host", 4000);
    // Nothing of this is of a copy.
    MPI_Sendrecv(it.host + 65536, 3019, MPI_BYTE, other, 3, it.host + 131072, 3019, MPI_BYTE, other, 3, comm, MPI_STATUS_IGNORE);
}

// Median over batches; what is in the stream is waited for between them.
template <typename Call> static void tell(const char *kind, const Memory &it, Call call) {
    std::vector<double> batches;
    for (int batch = 0; batch < BATCHES; batch++) {
        double begun = MPI_Wtime();
        for (int at = 0; at < CALLS; at++) {
            call();
        }
        batches.push_back(1e9 * (MPI_Wtime() - begun) / CALLS);
        CHECK(cudaStreamSynchronize(it.stream));
    }
    std::nth_element(batches.begin(), batches.begin() + BATCHES / 2, batches.end());
    if (rank == 0) {
        printf("%s,%.1f\n", kind, batches[BATCHES / 2]);
        fflush(stdout);
    }
}

static void cost(const Memory &it, MPI_Comm self) {
    if (rank == 0) {
        printf("kind,call_ns\n");
    }
    tell("cudaMemcpyAsync", it, [&] { CHECK(cudaMemcpyAsync(it.device, it.pinned, 64, cudaMemcpyHostToDevice, it.stream)); });
    tell("cudaMemcpy to the host", it, [&] { CHECK(cudaMemcpy(it.host, it.device, 64, cudaMemcpyDeviceToHost)); });
    tell("launch", it, [&] { nothing<<<1, 32, 0, it.stream>>>(it.device); });
    tell("MPI_Bcast of the host's memory", it, [&] { MPI_Bcast(it.host + 65536, 19, MPI_BYTE, 0, self); });
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    MPI_Comm comm, self;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(MPI_COMM_SELF, &self);
    begin_cuda(count, arguments, "rank,table,comm,direction,mode,from,to,calls,bytes");
    Memory memory = make();
    if (count > 2) {
        cost(memory, self);
    } else {
        blocking(memory);
        in_streams(memory);
        launches(memory);
        staged(memory, comm);
    }
    for (const auto &it : sums) {
        fprintf(expected, "%d,%s,%llu,%llu\n", rank, it.first.c_str(), (unsigned long long)it.second.first,
                (unsigned long long)it.second.second);
    }
    end();
    return 0;
}
