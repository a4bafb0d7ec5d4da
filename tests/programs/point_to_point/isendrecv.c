/* Isendrecv and Isendrecv_replace, where the MPI has them: one request for both directions. Prints "whole" if the
 * status describes the message, and "half" if not (in MPICH 4.0 it is empty). */
#include "program.h"

enum { ROOM = 30011 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
#if MPI_VERSION >= 4
    static char out[ROOM], in[ROOM];
    MPI_Status status;
    MPI_Request requests[2];
    int peer = size - 1 - rank, count;
    MPI_Isendrecv(out, 1129 + rank, MPI_BYTE, peer, 1, in, ROOM, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (rank == 0) puts(count == 1129 + peer ? "whole" : "half");
    MPI_Isendrecv(out, 2137, MPI_BYTE, peer, 2, in, ROOM, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Isendrecv_replace(out, 4139, MPI_BYTE, peer, 3, peer, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
#endif
    MPI_Finalize();
    return 0;
}
