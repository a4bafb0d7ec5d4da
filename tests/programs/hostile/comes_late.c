/* Rank 1 comes to MPI_Finalize five seconds after rank 0. Right: both ranks print "ok" and end as soon as both have come. */
#include "common.h"

int main(int argc, char **argv) {
    int rank;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) sleep(5);
    ok(rank);
    MPI_Finalize();
    return 0;
}
