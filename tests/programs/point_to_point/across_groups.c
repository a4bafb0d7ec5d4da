/* On an intercommunicator a rank is one of the other group. The groups run backwards: 2, 0 and 3, 1. */
#include "program.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char in[9001], out[9001];
    MPI_Comm half, both;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int me;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &me);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 3 - rank % 2, 0, &both);
    /* To the other one of the other group: 2 and 1, 0 and 3. */
    MPI_Irecv(in, sizeof in, MPI_BYTE, 1 - me, 0, both, &requests[0]);
    MPI_Isend(out, 4019 + rank, MPI_BYTE, 1 - me, 0, both, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    expect_status(&statuses[0], 1 - me, 0, 4019 + (3 - rank));
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
