// Header of the programs of scripts/gpu-check. Each makes known numbers of accesses, and writes down what gpu.csv is to
// have, all of it, a line for each kernel, kind and memory; compare.py has the columns. Which line of the source accesses
// is marked there: `// @NAME`.
#ifndef CHECK_H
#define CHECK_H

// Old bindings to C++ would have to be linked.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <mpi.h>
#include <mpisee.h>
#include <string>
#include <unistd.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t status_ = (call);                                                                                  \
        if (status_ != cudaSuccess) {                                                                                  \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status_));                \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                              \
        }                                                                                                              \
    } while (0)

static int rank, ranks;
static FILE *expected;

// After MPI has begun: takes a GPU, and writes down what is expected in the folder that is the first argument.
static inline void begin_cuda(int count, char **arguments, const char *columns) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count < 2) {
        fprintf(stderr, "the first argument is the folder for what is expected\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    std::string path = std::string(arguments[1]) + "/" + std::to_string(rank) + ".csv";
    expected = fopen(path.c_str(), "w");
    if (!expected) {
        perror(path.c_str());
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    fprintf(expected, "%s\n", columns);
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(rank % devices));
}

static inline void begin(int *count, char ***arguments) {
    MPI_Init(count, arguments);
    begin_cuda(*count, *arguments, "rank,peer_rank,memory,kernel,access,width,object,line,accesses,bytes");
}

static inline void end() {
    fclose(expected);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}

struct Access {
    const char *kernel, *kind;
    int width; // 0: bulk copies
    const char *line;
};

// Accesses of lanes; `bytes` is for bulk copies.
static inline void expect(const Access &it, int owner, const char *memory, const char *object, uint64_t accesses,
                          uint64_t bytes = 0) {
    fprintf(expected, "%d,%d,%s,%s,%s,%d,%s,%s,%llu,%llu\n", rank, owner, memory, it.kernel, it.kind, it.width, object,
            it.line, (unsigned long long)accesses,
            (unsigned long long)(it.width ? accesses * (unsigned)it.width : bytes));
    fflush(expected);
}

// Memory of the other rank, by CUDA IPC.
template <typename T> static T *memory_of_other(T *own) {
    cudaIpcMemHandle_t mine, theirs;
    CHECK(cudaIpcGetMemHandle(&mine, own));
    MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, 1 - rank, 0, &theirs, sizeof theirs, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    void *there;
    CHECK(cudaIpcOpenMemHandle(&there, theirs, cudaIpcMemLazyEnablePeerAccess));
    return (T *)there;
}

// The least that the driver gives by itself, so that an allocation begins where its handle says.
static const size_t WHOLE = 4 << 20;

template <typename T> static T *device_memory(size_t bytes) {
    void *memory;
    CHECK(cudaMalloc(&memory, bytes));
    CHECK(cudaMemset(memory, 0, bytes));
    return (T *)memory;
}

template <typename T> static T *pinned_memory(size_t bytes, const char *name, unsigned flags = cudaHostAllocDefault) {
    void *memory;
    CHECK(cudaHostAlloc(&memory, bytes, flags));
    mpisee_name_memory(memory, bytes, name);
    return (T *)memory;
}

#endif
