/* A duplicate that is used as soon as MPI_Request_get_status has reported its request complete, on one rank; another
 * duplication begins before that request is waited for. */
#include "program.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm dup, second, again;
    MPI_Request request, later;
    int flag = 0, one = 1, sum = 0;
    MPI_Comm_idup(MPI_COMM_WORLD, &dup, &request);
    if (rank == 0)
        while (!flag) MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    else
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_dup(dup, &again);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, again);
    EXPECT(sum == size);
    MPI_Comm_idup(MPI_COMM_WORLD, &second, &later);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Wait(&later, MPI_STATUS_IGNORE);
    MPI_Barrier(second);
    MPI_Comm_free(&again);
    MPI_Comm_free(&dup);
    MPI_Comm_free(&second);
    MPI_Finalize();
    return 0;
}
