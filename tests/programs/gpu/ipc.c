/* Rank 0 shares memory of its GPU by CUDA IPC, and kernels of rank 1 write to it. The GPU, its driver and its kernels are
 * fake, see gpu-tracer/tests/fake. The first argument is how it ends; "two" writes to memory of two names, in one
 * instruction. */
#include <fake.h>
#include <mpi.h>
#include <mpisee.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

#define CELLS (1 << 17)
#define FLAGS 4096

int main(int count, char **arguments) {
    unsigned char handle[64] = {0}, other[64] = {0};
    int is_two = count > 1 && strcmp(arguments[1], "two") == 0;
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
        if (is_two) {
            uint64_t flags = fake_alloc(1, 0, FLAGS, 0);
            mpisee_name_memory((const void *)(uintptr_t)flags, FLAGS, "flags");
            fake_ipc_get(flags, other);
        }
    }
    MPI_Bcast(handle, sizeof handle, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Bcast(other, sizeof other, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 1) {
        uint64_t cells = fake_ipc_open(handle);
        uint64_t flags = is_two ? fake_ipc_open(other) : 0;
        struct fake_access halo[] = {{0xe0, cells, 0xffffffffu, 8, FAKE_STORE, 9},
                                     {0xe0, flags + 512, 0xf, 8, FAKE_STORE, 3}};
        fake_launch(1, 1, 7, "copy", halo, is_two ? 2 : 1);
        fake_stream_wait(1, 1);
        MPI_Send(handle, 13, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    } else if (rank == 0) {
        MPI_Recv(handle, 13, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 2) {
        /* Nothing remote. */
        fake_launch(1, 1, 7, "copy", NULL, 0);
        fake_stream_wait(1, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (count > 1 && strcmp(arguments[1], "kill") == 0) {
        raise(SIGKILL);
    }
    MPI_Finalize();
    return 0;
}
