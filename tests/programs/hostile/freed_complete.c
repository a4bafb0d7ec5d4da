/* Rank 0 learns from MPI_Request_get_status that its receive is complete, and frees the request.
 * Right: rank 0 received 1 message of 4001 bytes; nothing is unknown. */
#include "common.h"

int main(int argc, char **argv) {
    static char data[5000];
    MPI_Request request;
    int rank, flag = 0;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Irecv(data, sizeof data, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
        while (!flag) MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    } else if (rank == 1) {
        MPI_Send(data, 4001, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    ok(rank);
    MPI_Finalize();
    return 0;
}
