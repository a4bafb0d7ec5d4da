/* Process 1 makes the first of two duplicates by PMPI_Comm_dup, which no profiler sees; its second one is the first that
 * can be counted there. With the argument `all` every process makes both so.
 */
#include <mpi.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Comm past, seen;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1 || rank == 1) {
        PMPI_Comm_dup(MPI_COMM_WORLD, &past);
    } else {
        MPI_Comm_dup(MPI_COMM_WORLD, &past);
    }
    if (argc > 1) {
        PMPI_Comm_dup(MPI_COMM_WORLD, &seen);
    } else {
        MPI_Comm_dup(MPI_COMM_WORLD, &seen);
    }
    PMPI_Barrier(seen);
    MPI_Comm_free(&seen);
    MPI_Comm_free(&past);
    MPI_Finalize();
    return 0;
}
