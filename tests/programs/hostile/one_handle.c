/* Sends on two communicators that are complete at once. An MPI may give all such sends one and the same handle, as Open
 * MPI's pml/ucx does. They are waited for one by one, or with the argument "all" in pairs.
 * Right: rank 0 has 100 MPI_Wait on each of W_d1 and W_d2, or 100 MPI_Waitall on each; nothing is unknown. */
#include "common.h"

int main(int argc, char **argv) {
    MPI_Comm comms[2];
    MPI_Request requests[2];
    int rank, data = 1;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int round = 0; round < 100; round++) {
        if (rank == 0) {
            for (int i = 0; i < 2; i++) MPI_Isend(&data, 1, MPI_INT, 1, 0, comms[i], &requests[i]);
            if (is(argc, argv, "all")) MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            else for (int i = 0; i < 2; i++) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            for (int i = 0; i < 2; i++) MPI_Recv(&data, 1, MPI_INT, 0, 0, comms[i], MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < 2; i++) MPI_Comm_free(&comms[i]);
    ok(rank);
    MPI_Finalize();
    return 0;
}
