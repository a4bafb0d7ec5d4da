/* Sendrecv and Sendrecv_replace with different sizes each way: along a chain with open ends, and to itself. */
#include "program.h"

enum { ROOM = 9001 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char out[ROOM], in[ROOM];
    MPI_Status status;
    int up = rank + 1 < size ? rank + 1 : MPI_PROC_NULL, down = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    MPI_Sendrecv(out, 1000 + rank, MPI_BYTE, up, 3, in, ROOM, MPI_BYTE, down, 3, MPI_COMM_WORLD, &status);
    if (rank > 0) expect_status(&status, down, 3, 1000 + rank - 1);
    /* The message that comes is shorter than the one that it replaces, from below the longest. */
    MPI_Sendrecv_replace(out, 5003 - rank, MPI_BYTE, down, 4, up, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, 211, MPI_BYTE, 0, 5, in, 457, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(out, 307, MPI_BYTE, 0, 6, 0, 6, MPI_COMM_SELF, &status);
    expect_status(&status, 0, 6, 307);
    MPI_Finalize();
    return 0;
}
