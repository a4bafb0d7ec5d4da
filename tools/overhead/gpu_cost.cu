// Cost of `mpisee --gpu`: two ranks, whose kernels run in turns, so that a GPU that both share has
// one at a time.
//
// stencil   of the rows of a grid each rank has half, and reads the row next to it by CUDA IPC
// ring      each rank writes a block to the next one's memory, by CUDA IPC
// local     a kernel without remote accesses, while there is memory that it could access remotely
// host      a kernel that reads and writes pinned memory of the host alone
// alone     the kernel of `local`, before there is anything remote
//
// Rank 0 prints a line for each: the median and the mean time of a kernel by CUDA's events, and the
// time of a step by the clock, with the launch and MPI's barriers, all in microseconds of the
// slower rank; and the seconds from MPI_Init until the first kernel had ended. `scripts/gpu-check
// cost` runs it untraced, with MPISEE_GPU_EMPTY, by which kernels are patched but nothing is
// counted, and as users would; and compares. Old bindings to C++ would have to be linked.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1

#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>
#include <mpi.h>
#include <numeric>
#include <vector>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t status_ = (call);                                                                                  \
        if (status_ != cudaSuccess) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status_));                           \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                              \
        }                                                                                                              \
    } while (0)

static const int COLUMNS = 4096, ROWS = 1024, THREADS = 128;
static const size_t CELLS = (size_t)COLUMNS * ROWS, BLOCK = 8 << 20;
static const double BUDGET_S = 0.4;
static const int WARM_UP = 3, LEAST = 5, MOST = 1000;

__global__ void stencil(const double *cells, const double *ghost_row, int ghost_at, double *next) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column == 0 || column == COLUMNS - 1) {
        return;
    }
    const double *here = cells + (size_t)row * COLUMNS + column;
    double above = row > 0 ? here[-COLUMNS] : 0, below = row < ROWS - 1 ? here[COLUMNS] : 0;
    if (row == ghost_at) {
        (row > 0 ? below : above) = ghost_row[column];
    }
    next[(size_t)row * COLUMNS + column] = (here[-1] + here[1] + above + below) / 4;
}

__global__ void copy(const uint4 *from, uint4 *to) {
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    to[at] = from[at];
}

__global__ void add(const double *x, double *y) {
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    y[at] += 0.5 * x[at];
}

static int rank, ranks;

// Each rank's kernel, one after the other. The time of the own kernel, in microseconds.
template <typename Launch> static double step(cudaEvent_t begin, cudaEvent_t end, const Launch &launch) {
    float milliseconds = 0;
    for (int turn = 0; turn < ranks; turn++) {
        if (turn == rank) {
            CHECK(cudaEventRecord(begin));
            launch();
            CHECK(cudaEventRecord(end));
            CHECK(cudaDeviceSynchronize());
            CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return 1e3 * milliseconds;
}

static double of_slower_rank(double value) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
}

template <typename Launch> static void measure(const char *name, const Launch &launch) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    step(begin, end, launch);
    double started = MPI_Wtime();
    for (int at = 0; at < WARM_UP; at++) {
        step(begin, end, launch);
    }
    double each = of_slower_rank((MPI_Wtime() - started) / WARM_UP);
    int steps = std::min(MOST, std::max(LEAST, (int)(BUDGET_S / each)));
    std::vector<double> kernel;
    started = MPI_Wtime();
    for (int at = 0; at < steps; at++) {
        kernel.push_back(step(begin, end, launch));
    }
    double wall = of_slower_rank(1e6 * (MPI_Wtime() - started) / steps);
    std::nth_element(kernel.begin(), kernel.begin() + steps / 2, kernel.end());
    double median = of_slower_rank(kernel[(size_t)steps / 2]);
    double mean = of_slower_rank(std::accumulate(kernel.begin(), kernel.end(), 0.0) / steps);
    if (rank == 0) {
        printf("%s,%.2f,%.2f,%.2f\n", name, median, mean, wall);
        fflush(stdout);
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
}

template <typename T> static T *memory(size_t bytes, bool is_host = false) {
    void *made;
    CHECK(is_host ? cudaMallocHost(&made, bytes) : cudaMalloc(&made, bytes));
    CHECK(cudaMemset(made, 0, bytes));
    return (T *)made;
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double started = MPI_Wtime();
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(rank % devices));
    double *cells = memory<double>(CELLS * sizeof(double)), *next = memory<double>(CELLS * sizeof(double));
    auto local = [=] { add<<<CELLS / THREADS, THREADS>>>(cells, next); };
    local();
    CHECK(cudaDeviceSynchronize());
    double start = of_slower_rank(MPI_Wtime() - started);
    if (rank == 0) {
        printf("workload,kernel_us,mean_kernel_us,step_us\nstart,,,%.0f\n", 1e6 * start);
    }
    measure("alone", local);

    std::vector<cudaIpcMemHandle_t> handles((size_t)ranks);
    CHECK(cudaIpcGetMemHandle(&handles[(size_t)rank], cells));
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, handles.data(), sizeof handles[0], MPI_BYTE, MPI_COMM_WORLD);
    void *opened;
    CHECK(cudaIpcOpenMemHandle(&opened, handles[(size_t)((rank + 1) % ranks)], cudaIpcMemLazyEnablePeerAccess));
    double *theirs = (double *)opened;

    int own_at = rank == 0 ? ROWS - 1 : 0;
    const double *ghost = theirs + (rank == 0 ? 0 : CELLS - COLUMNS);
    measure("stencil", [=] { stencil<<<dim3(COLUMNS / THREADS, ROWS), THREADS>>>(cells, ghost, own_at, next); });
    const unsigned blocks = BLOCK / sizeof(uint4) / THREADS;
    measure("ring", [=] { copy<<<blocks, THREADS>>>((const uint4 *)next, (uint4 *)theirs); });
    measure("local", local);
    uint4 *from = memory<uint4>(BLOCK, true), *to = memory<uint4>(BLOCK, true);
    measure("host", [=] { copy<<<blocks, THREADS>>>(from, to); });
    CHECK(cudaIpcCloseMemHandle(opened));
    MPI_Finalize();
    return 0;
}
