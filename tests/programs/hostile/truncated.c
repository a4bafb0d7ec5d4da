/* A receive that is too small: MPI returns MPI_ERR_TRUNCATE, the message is gone, and the program goes on.
 * Right: both ranks print "ok"; 1 message of 44 bytes was sent, and 1 message was received. */
#include "common.h"

int main(int argc, char **argv) {
    int rank, data[20] = {0}, code = MPI_SUCCESS;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 1) MPI_Send(data, 11, MPI_INT, 0, 0, MPI_COMM_WORLD);
    if (rank == 0) code = MPI_Recv(data, 10, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if ((code == MPI_SUCCESS) == (rank == 1)) ok(rank);
    MPI_Finalize();
    return 0;
}
