/* Rank 0 shares memory of its GPU by CUDA IPC, and kernels of rank 1 write to it. The GPU, its driver and its kernels only
 * pretend, see gpu-tracer/tests/fake. The first argument is how it ends. */
#include <fake.h>
#include <mpi.h>
#include <mpisee.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

#define CELLS (1 << 17)

int main(int count, char **arguments) {
    unsigned char handle[64] = {0};
    int rank;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    cuInit(0);
    fake_context(1, rank);
    fake_module(1, 7, NULL, 0);
    if (rank == 0) {
        uint64_t cells = fake_alloc(1, 0, CELLS, 0);
        mpisee_name_memory((const void *)(uintptr_t)cells, CELLS, "ghost cells");
        fake_ipc_get(cells, handle);
    }
    MPI_Bcast(handle, sizeof handle, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 1) {
        uint64_t cells = fake_ipc_open(handle);
        struct fake_access halo = {0xe0, cells, 0xffffffffu, 8, FAKE_STORE, 9};
        fake_launch(1, 3, 7, "copy", &halo, 1);
        fake_stream_wait(1, 3);
        MPI_Send(handle, 13, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    } else if (rank == 0) {
        MPI_Recv(handle, 13, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (count > 1 && strcmp(arguments[1], "kill") == 0) {
        raise(SIGKILL);
    }
    MPI_Finalize();
    return 0;
}
