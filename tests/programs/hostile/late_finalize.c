/* Rank 0 starts a receive from anyone with any tag, frees the request and calls MPI_Finalize at once; rank 1 comes three
 * seconds later, and with the argument "send" sends what the receive takes before it calls MPI_Finalize.
 * Right: both ranks print "ok"; the message of 4001 bytes is counted as sent. */
#include "common.h"

int main(int argc, char **argv) {
    static char data[5000];
    MPI_Request request;
    int rank;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Irecv(data, sizeof data, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    } else if (rank == 1) {
        sleep(3);
        if (is(argc, argv, "send")) MPI_Send(data, 4001, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    ok(rank);
    MPI_Finalize();
    return 0;
}
