/* copies end|kill|collectives: messages with copies right before and after, by a fake driver (gpu-tracer/tests/fake/copies): what is
 * staged. Two ranks. */
#include <copies/copies.h>
#include <mpi.h>
#include <signal.h>
#include <string.h>

#define BYTES 65536

static char host[BYTES];

/* Each on a communicator of its own. */
static void collectives(int rank, char *device) {
    MPI_Comm in_place, broadcast, uneven;
    MPI_Comm_dup(MPI_COMM_WORLD, &in_place);
    MPI_Comm_dup(MPI_COMM_WORLD, &broadcast);
    MPI_Comm_dup(MPI_COMM_WORLD, &uneven);
    cuMemcpyDtoH_v2(host, device, 5003);
    MPI_Allreduce(MPI_IN_PLACE, host, 5003, MPI_BYTE, MPI_BOR, in_place);
    cuMemcpyHtoD_v2(device, host, 5003);
    /* The root sends, the other one receives over its own copy. */
    cuMemcpyDtoH_v2(host, device, 2003);
    MPI_Bcast(host, 2003, MPI_BYTE, 0, broadcast);
    cuMemcpyHtoD_v2(device, host, 2003);
    /* A rank gets much less than it sends, and what is behind that is sent next. */
    int sent[2] = {0, rank ? 0 : 8009}, received[2] = {rank ? 8009 : 0, 0}, at[2] = {0, 0};
    cuMemcpyDtoH_v2(host, device, 8009);
    cuMemcpyDtoH_v2(host + 20040, device, 1009);
    if (rank) {
        sent[0] = 41;
    } else {
        received[1] = 41;
    }
    MPI_Alltoallv(host, sent, at, MPI_BYTE, host + 20000, received, at, MPI_BYTE, uneven);
    MPI_Sendrecv(host + 20041, 1008, MPI_BYTE, 1 - rank, 5, host + 40000, 1008, MPI_BYTE, 1 - rank, 5, uneven, MPI_STATUS_IGNORE);
}

int main(int count, char **arguments) {
    int rank;
    MPI_Comm comm;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    cuInit(0);
    fake_use_device(rank);
    char *device = fake_alloc_device(BYTES), *pinned = fake_alloc_pinned(BYTES);
    int other = 1 - rank;
    if (count > 1 && !strcmp(arguments[1], "collectives")) {
        collectives(rank, device);
        return MPI_Finalize();
    }
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
