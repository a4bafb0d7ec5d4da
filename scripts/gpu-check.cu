// Kernels that make known numbers of accesses of each width and kind, to local memory, to memory of another rank and to
// the host. Rank 0 prints what is to be counted, a line per kind: kernel, access, width, memory, accesses.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <mpi.h>
#include <mpisee.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t status = (call);                                                                                   \
        if (status != cudaSuccess) {                                                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status));                            \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                              \
        }                                                                                                              \
    } while (0)

static const int BLOCKS = 5, THREADS = 96;
static const size_t BYTES = 1 << 20;

#define KERNELS(name, type)                                                                                            \
    extern "C" __global__ void load##name(const type *from, type *own) {                                               \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                                                 \
        own[i] = ((const volatile type *)from)[i];                                                                     \
    }                                                                                                                  \
    extern "C" __global__ void store##name(type *to) {                                                                 \
        ((volatile type *)to)[blockIdx.x * blockDim.x + threadIdx.x] = (type)threadIdx.x;                              \
    }

KERNELS(1, unsigned char)
KERNELS(2, unsigned short)
KERNELS(4, unsigned)
KERNELS(8, unsigned long long)

extern "C" __global__ void load16(const uint4 *from, uint4 *own) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    own[i] = __ldcv(from + i);
}

extern "C" __global__ void store16(uint4 *to) {
    to[blockIdx.x * blockDim.x + threadIdx.x] = make_uint4(1, 2, 3, threadIdx.x);
}

// The result is used, so that it is no reduction.
extern "C" __global__ void atomic4(unsigned *to, unsigned *own) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    own[i] = atomicAdd(to + i, 1);
}

extern "C" __global__ void reduce8(unsigned long long *to) {
    atomicAdd(to + blockIdx.x * blockDim.x + threadIdx.x, 1ull);
}

static void everything(char *target, char *own) {
    load1<<<BLOCKS, THREADS>>>((unsigned char *)target, (unsigned char *)own);
    load2<<<BLOCKS, THREADS>>>((unsigned short *)target, (unsigned short *)own);
    load4<<<BLOCKS, THREADS>>>((unsigned *)target, (unsigned *)own);
    load8<<<BLOCKS, THREADS>>>((unsigned long long *)target, (unsigned long long *)own);
    load16<<<BLOCKS, THREADS>>>((uint4 *)target, (uint4 *)own);
    store1<<<BLOCKS, THREADS>>>((unsigned char *)target);
    store2<<<BLOCKS, THREADS>>>((unsigned short *)target);
    store4<<<BLOCKS, THREADS>>>((unsigned *)target);
    store8<<<BLOCKS, THREADS>>>((unsigned long long *)target);
    store16<<<BLOCKS, THREADS>>>((uint4 *)target);
    atomic4<<<BLOCKS, THREADS>>>((unsigned *)target, (unsigned *)own);
    reduce8<<<BLOCKS, THREADS>>>((unsigned long long *)target);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

static void expect(const char *memory) {
    static const struct { const char *kernel, *access; int width; } kinds[] = {
        {"load1", "load", 1},     {"load2", "load", 2},       {"load4", "load", 4},     {"load8", "load", 8},
        {"load16", "load", 16},   {"store1", "store", 1},     {"store2", "store", 2},   {"store4", "store", 4},
        {"store8", "store", 8},   {"store16", "store", 16},   {"atomic4", "atomic", 4}, {"reduce8", "atomic", 8},
    };
    for (const auto &kind : kinds) {
        printf("%s %s %d %s %d\n", kind.kernel, kind.access, kind.width, memory, BLOCKS * THREADS);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *own, *pinned, *managed, *registered = (char *)aligned_alloc(4096, BYTES);
    CHECK(cudaMalloc(&own, BYTES));
    cudaIpcMemHandle_t handle;
    if (rank == 0) {
        char *ghost;
        CHECK(cudaMalloc(&ghost, 4 * BYTES)); // no smaller than the driver's own granularity
        mpisee_name_memory(ghost, 4 * BYTES, "ghost cells");
        CHECK(cudaIpcGetMemHandle(&handle, ghost));
        expect("ipc");
        expect("pinned");
        expect("registered");
        expect("managed");
        fflush(stdout);
    }
    MPI_Bcast(&handle, sizeof handle, MPI_BYTE, 0, MPI_COMM_WORLD);
    everything(own, own + BYTES / 2); // counted nowhere
    if (rank == 1) {
        char *ghost;
        CHECK(cudaIpcOpenMemHandle((void **)&ghost, handle, cudaIpcMemLazyEnablePeerAccess));
        everything(ghost, own);
        CHECK(cudaIpcCloseMemHandle(ghost));
        CHECK(cudaMallocHost(&pinned, BYTES));
        everything(pinned, own);
        CHECK(cudaHostRegister(registered, BYTES, cudaHostRegisterMapped));
        everything(registered, own);
        CHECK(cudaMallocManaged(&managed, BYTES));
        everything(managed, own);
        // A thousand allocations come and go.
        for (int turn = 0; turn < 1000; turn++) {
            char *passing;
            CHECK(cudaMallocHost(&passing, 4096));
            CHECK(cudaFreeHost(passing));
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
