// Programs of all shapes: several streams, streams of threads, graphs that are captured and such that are built, a
// cooperative launch, modules that are loaded late, unloaded and loaded again, and a second context. All kernels store to
// pinned memory. Further arguments: images of late.cu, for the device and as PTX.
#include "driver.h"

#include <cooperative_groups.h>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

static const int LANES = 64, STREAMS = 4, ROUNDS = 3, THREADS = 2, TURNS = 50, GRAPH_RUNS = 5, LATE_RUNS = 3;
static const size_t BYTES = 1 << 16;

#define STORES(name)                                                                                                   \
    extern "C" __global__ void name(unsigned *p) { ((volatile unsigned *)p)[blockIdx.x * blockDim.x + threadIdx.x] = 1; }

STORES(in_streams)  // @in_streams
STORES(in_threads)  // @in_threads
STORES(in_capture)  // @in_capture
STORES(in_capture2) // @in_capture2
STORES(in_graph)    // @in_graph
STORES(beside)      // @beside

extern "C" __global__ void together(unsigned *p) {
    cooperative_groups::this_grid().sync();
    ((volatile unsigned *)p)[blockIdx.x * blockDim.x + threadIdx.x] = 1; // @together
}

static unsigned *words;

static void stored(const char *kernel, uint64_t accesses, bool has_line = true) {
    expect({kernel, "store", 4, has_line ? kernel : "*"}, rank, "pinned", "words", accesses);
}

static void streams() {
    cudaStream_t all[STREAMS];
    for (cudaStream_t &stream : all) {
        CHECK(cudaStreamCreate(&stream));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int at = 0; at < STREAMS; at++) {
            in_streams<<<at + 1, LANES, 0, all[at]>>>(words);
        }
    }
    for (cudaStream_t &stream : all) {
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamDestroy(stream));
    }
    stored("in_streams", ROUNDS * (STREAMS * (STREAMS + 1) / 2) * LANES);
}

static void threads() {
    std::vector<std::thread> all;
    for (int at = 0; at < THREADS; at++) {
        all.emplace_back([] {
            for (int turn = 0; turn < TURNS; turn++) {
                in_threads<<<1, LANES, 0, cudaStreamPerThread>>>(words);
            }
            CHECK(cudaStreamSynchronize(cudaStreamPerThread));
        });
    }
    for (std::thread &thread : all) {
        thread.join();
    }
    stored("in_threads", THREADS * TURNS * LANES);
}

static void run_graph(cudaGraph_t graph, cudaStream_t stream) {
    cudaGraphExec_t made;
    CHECK(cudaGraphInstantiate(&made, graph, 0));
    for (int run = 0; run < GRAPH_RUNS; run++) {
        CHECK(cudaGraphLaunch(made, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(made));
    CHECK(cudaGraphDestroy(graph));
}

static void graphs() {
    cudaStream_t stream;
    cudaGraph_t captured, built;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    in_capture<<<2, LANES, 0, stream>>>(words);
    in_capture2<<<3, LANES, 0, stream>>>(words);
    CHECK(cudaStreamEndCapture(stream, &captured));
    run_graph(captured, stream);
    stored("in_capture", GRAPH_RUNS * 2 * LANES);
    stored("in_capture2", GRAPH_RUNS * 3 * LANES);

    CHECK(cudaGraphCreate(&built, 0));
    void *arguments[] = {&words};
    cudaKernelNodeParams node = {};
    node.func = (void *)in_graph;
    node.gridDim = dim3(2);
    node.blockDim = dim3(LANES);
    node.kernelParams = arguments;
    cudaGraphNode_t made;
    CHECK(cudaGraphAddKernelNode(&made, built, nullptr, 0, &node));
    run_graph(built, stream);
    stored("in_graph", GRAPH_RUNS * 2 * LANES);
    CHECK(cudaStreamDestroy(stream));
}

static void cooperative() {
    void *arguments[] = {&words};
    CHECK(cudaLaunchCooperativeKernel((void *)together, dim3(4), dim3(LANES), arguments, 0, 0));
    CHECK(cudaDeviceSynchronize());
    stored("together", 4 * LANES);
}

static std::vector<char> image_in(const char *path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<char> image((std::istreambuf_iterator<char>(file)), {});
    if (image.empty()) {
        fprintf(stderr, "%s cannot be read\n", path);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    image.push_back(0); // PTX is text
    return image;
}

static void run_late(const std::vector<char> &image, const char *kernel, unsigned blocks) {
    CUmodule module;
    CUfunction function;
    CHECK_DRIVER(DRIVER(cuModuleLoadData)(&module, image.data()));
    CHECK_DRIVER(DRIVER(cuModuleGetFunction)(&function, module, kernel));
    void *arguments[] = {&words};
    CHECK_DRIVER(DRIVER(cuLaunchKernel)(function, blocks, 1, 1, LANES, 1, 1, 0, nullptr, arguments, nullptr));
    CHECK_DRIVER(DRIVER(cuCtxSynchronize)());
    CHECK_DRIVER(DRIVER(cuModuleUnload)(module));
}

// Each time the module may come to the same place, or another.
static void late_modules(const char *cubin, const char *ptx) {
    for (int run = 0; run < LATE_RUNS; run++) {
        run_late(image_in(cubin), "late", 2);
        run_late(image_in(cubin), "later", 3);
    }
    stored("late", LATE_RUNS * 2 * LANES);
    stored("later", LATE_RUNS * 3 * LANES);
    run_late(image_in(ptx), "latest", 5);
    stored("latest", 5 * LANES, false); // the driver's compiler keeps no lines
}

static void second_context(const char *cubin) {
    CUcontext first, second;
    CUdevice device;
    CHECK_DRIVER(DRIVER(cuCtxGetCurrent)(&first));
    CHECK_DRIVER(DRIVER(cuCtxGetDevice)(&device));
    CHECK_DRIVER(DRIVER(cuCtxCreate)(&second, nullptr, 0, device));
    run_late(image_in(cubin), "elsewhere", 4);
    CHECK_DRIVER(DRIVER(cuCtxSetCurrent)(first));
    beside<<<1, LANES>>>(words);
    CHECK(cudaDeviceSynchronize());
    CHECK_DRIVER(DRIVER(cuCtxDestroy)(second));
    stored("elsewhere", 4 * LANES);
    stored("beside", LANES);
}

int main(int count, char **arguments) {
    begin(&count, &arguments);
    if (count < 4) {
        fprintf(stderr, "further arguments are the images of late.cu\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    words = pinned_memory<unsigned>(BYTES, "words", cudaHostAllocPortable | cudaHostAllocMapped);
    streams();
    threads();
    graphs();
    cooperative();
    late_modules(arguments[2], arguments[3]);
    second_context(arguments[2]);
    end();
    return 0;
}
