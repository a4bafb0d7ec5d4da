/* Process 3 has created many communicators of its own when it passes MPI_UNDEFINED to a split of all: the names must
 * not come again in later splits, of which it is no member either.
 */
#include <mpi.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0; rank == 3 && k < 5; k++) {
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
    }
    for (int k = 0; k < 3; k++) {
        MPI_Comm_split(MPI_COMM_WORLD, rank == 3 ? MPI_UNDEFINED : 0, 0, &comm);
        if (comm != MPI_COMM_NULL) {
            MPI_Barrier(comm);
        }
    }
    MPI_Finalize();
    return 0;
}
