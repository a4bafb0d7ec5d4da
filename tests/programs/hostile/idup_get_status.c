/* Rank 0 learns from MPI_Request_get_status that an MPI_Comm_idup is complete, and uses the new communicator before it
 * waits for the request; rank 1 waits first.
 * Right: both ranks print "ok"; the copy W_i1 and its copy W_i1_d1, on which each rank has one MPI_Allreduce. */
#include "common.h"

int main(int argc, char **argv) {
    MPI_Comm dup, again;
    MPI_Request request;
    int rank, flag = 0, one = 1, sum = 0;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_idup(MPI_COMM_WORLD, &dup, &request);
    if (rank == 0) {
        while (!flag) MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    } else {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Comm_dup(dup, &again);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, again);
    if (rank == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (sum == 2) ok(rank);
    MPI_Comm_free(&again);
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
