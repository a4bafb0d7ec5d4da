/* Rank 0 limits the size of files to nothing, and then uses more communicators than its counters have room for in what is
 * mapped; rank 1 comes last to MPI_Finalize.
 * Right: both ranks print "ok"; all calls of rank 1 are counted, and that some of rank 0 may be lost is said. */
#include "common.h"
#include <sys/resource.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Comm comm;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        struct rlimit none = {0, RLIM_INFINITY};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &none);
    }
    for (int i = 0; i < 400; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (int k = 0; k < 3; k++) MPI_Barrier(comm);
        MPI_Comm_free(&comm);
    }
    if (rank == 1) usleep(500000);
    ok(rank);
    MPI_Finalize();
    return 0;
}
