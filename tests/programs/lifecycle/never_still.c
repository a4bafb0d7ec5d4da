/* Communicates without a pause, in short calls that wait for each other in all ways, until it is killed: no rank ever waits in vain. */
#include "meet.h"

static char out[64], in[64];

static void receive(int from, int tag) {
    MPI_Recv(in, sizeof in, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (unsigned long time = 0;; time++) {
        MPI_Request requests[2];
        /* There and back. */
        if (rank % 2 == 0 && rank + 1 < size) {
            MPI_Ssend(out, 8, MPI_BYTE, rank + 1, 1, MPI_COMM_WORLD);
            receive(rank + 1, 2);
        } else if (rank % 2 == 1) {
            receive(rank - 1, 1);
            MPI_Send(out, 8, MPI_BYTE, rank - 1, 2, MPI_COMM_WORLD);
        }
        /* Around. MPI buffers messages of this size. */
        MPI_Send(out, 8, MPI_BYTE, next, 3, MPI_COMM_WORLD);
        receive(time % 2 ? MPI_ANY_SOURCE : before, 3);
        MPI_Sendrecv(out, 16, MPI_BYTE, next, 4, in, 16, MPI_BYTE, before, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Irecv(in, 32, MPI_BYTE, before, 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, 32, MPI_BYTE, next, 5, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Message message;
        MPI_Send(out, 8, MPI_BYTE, next, 6, MPI_COMM_WORLD);
        MPI_Mprobe(before, 6, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(in, 8, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        MPI_Allreduce(out, in, 16, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
        MPI_Bcast(in, 16, MPI_BYTE, (int)(time % (unsigned long)size), MPI_COMM_WORLD);
        if (time % 4 == 0) MPI_Barrier(MPI_COMM_WORLD);
        if (time == 10) arrive(rank);
    }
}
