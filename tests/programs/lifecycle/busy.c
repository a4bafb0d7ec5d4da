/* Communicates in all ways that look like a deadlock for a while, until there is a file "go": large messages both ways, long waits for
 * a rank that computes, receives from anybody, collectives that some enter late. */
#include "meet.h"

enum { LARGE = 1 << 23 };
static char out[LARGE], in[LARGE];

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int next = (rank + 1) % size, before = (rank + size - 1) % size, goes_on = 1, first = 1;
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    for (int time = 0; goes_on; time++) {
        MPI_Request requests[2];
        /* Large messages to both sides, whose receives are posted. */
        MPI_Irecv(in, LARGE, MPI_BYTE, before, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Send(out, LARGE, MPI_BYTE, next, 1, MPI_COMM_WORLD);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Irecv(in, LARGE, MPI_BYTE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, LARGE, MPI_BYTE, next, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Sendrecv(out, LARGE, MPI_BYTE, next, 3, in, LARGE, MPI_BYTE, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        /* One computes, the others wait for it in different calls. */
        if (rank == time % size) usleep(150000);
        if (rank == time % size) {
            for (int to = 0; to < size; to++)
                if (to != rank) MPI_Send(out, 100, MPI_BYTE, to, 4, MPI_COMM_WORLD);
        } else {
            MPI_Recv(in, 100, MPI_BYTE, rank % 2 ? MPI_ANY_SOURCE : time % size, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Allreduce(out, in, 64, MPI_BYTE, MPI_BOR, half);
        MPI_Bcast(in, LARGE / 8, MPI_BYTE, time % size, MPI_COMM_WORLD);
        goes_on = access("go", F_OK) != 0;
        MPI_Allreduce(MPI_IN_PLACE, &goes_on, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        if (first) arrive(rank);
        first = 0;
    }
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
