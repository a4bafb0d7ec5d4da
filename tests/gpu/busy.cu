// Keeps the GPU busy for as many seconds as the argument says, and 1 GiB of its memory.
#include <cstdio>
#include <cstdlib>

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <cuda_runtime.h>
#include <mpi.h>

static const size_t BYTES = (size_t)1 << 30;

__global__ void add(double *words) {
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    words[at] += 1;
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    double seconds = count > 1 ? atof(arguments[1]) : 4, begun = MPI_Wtime();
    double *words;
    if (cudaMalloc(&words, BYTES) != cudaSuccess) {
        fprintf(stderr, "no memory of the GPU\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    while (MPI_Wtime() - begun < seconds) {
        for (int launch = 0; launch < 100; launch++) {
            add<<<BYTES / sizeof(double) / 256, 256>>>(words);
        }
        if (cudaDeviceSynchronize() != cudaSuccess) {
            fprintf(stderr, "the kernel failed\n");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        MPI_Barrier(MPI_COMM_SELF);
    }
    MPI_Finalize();
    return 0;
}
