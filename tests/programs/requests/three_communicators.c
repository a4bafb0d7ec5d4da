/* One Waitall over requests of three communicators, one of them with two requests. */
#include "program.h"
#include <unistd.h>

enum { W = 60013, HALF = 60017, DUP = 60029, DUP_TOO = 60037 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[4][1 << 16];
    MPI_Comm half, dup;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &half);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Request requests[4];
    int peer = rank ^ 1;
    if (rank % 2) {
        usleep(20000); /* something to wait for */
        MPI_Isend(data[0], W, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(data[1], HALF, MPI_BYTE, 0, 0, half, &requests[1]);
        MPI_Isend(data[2], DUP, MPI_BYTE, peer, 0, dup, &requests[2]);
        MPI_Isend(data[3], DUP_TOO, MPI_BYTE, peer, 0, dup, &requests[3]);
    } else {
        MPI_Irecv(data[0], 1 << 16, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(data[1], 1 << 16, MPI_BYTE, 1, 0, half, &requests[1]);
        MPI_Irecv(data[2], 1 << 16, MPI_BYTE, peer, 0, dup, &requests[2]);
        MPI_Irecv(data[3], 1 << 16, MPI_BYTE, peer, 0, dup, &requests[3]);
    }
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&half);
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
