/* Messages with copies right before and after, by a fake driver (gpu-tracer/tests/fake/copies): what is staged. Two ranks. */
#include <copies/copies.h>
#include <mpi.h>
#include <signal.h>
#include <string.h>

#define BYTES 65536

int main(int count, char **arguments) {
    static char host[BYTES];
    int rank;
    MPI_Comm comm;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    cuInit(0);
    fake_use_device(rank);
    char *device = fake_alloc_device(BYTES), *pinned = fake_alloc_pinned(BYTES);
    int other = 1 - rank;
    if (rank == 0) {
        cuMemcpyDtoH_v2(host, device, 3001);
        MPI_Send(host, 3001, MPI_BYTE, other, 0, comm);
        MPI_Send(host, 3001, MPI_BYTE, other, 0, comm);
    } else if (rank == 1) {
        MPI_Recv(host, 3001, MPI_BYTE, other, 0, comm, MPI_STATUS_IGNORE);
        MPI_Recv(host, 3001, MPI_BYTE, other, 0, comm, MPI_STATUS_IGNORE);
        cuMemcpyHtoD_v2(device, host, 3001);
    }
    /* Two parts of one copy, and one copy of two messages. */
    char *received = pinned + BYTES / 2;
    MPI_Request requests[4];
    cuMemcpyDtoHAsync_v2(pinned, device, 3011, NULL);
    MPI_Irecv(received, 1000, MPI_BYTE, other, 1, comm, &requests[0]);
    MPI_Irecv(received + 1000, 500, MPI_BYTE, other, 2, comm, &requests[1]);
    MPI_Isend(pinned, 1000, MPI_BYTE, other, 1, comm, &requests[2]);
    MPI_Isend(pinned + 1000, 500, MPI_BYTE, other, 2, comm, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    cuMemcpyAsync(device, received, 1500, NULL);
    /* A collective, and a send and receive in one, on the world. */
    cuMemcpyDtoH_v2(host, device, 4000);
    MPI_Allreduce(host, host + 8192, 4000, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    cuMemcpyHtoD_v2(device, host + 8192, 4000);
    cuMemcpyDtoH_v2(host, device, 700);
    MPI_Sendrecv(host, 700, MPI_BYTE, other, 3, host + 16384, 700, MPI_BYTE, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    cuLaunchKernel(NULL, NULL);
    if (count > 1 && !strcmp(arguments[1], "kill")) {
        cuMemsetD32_v2(device, 0, 11);
        MPI_Barrier(MPI_COMM_WORLD);
        raise(SIGKILL);
    }
    MPI_Finalize();
    return 0;
}
