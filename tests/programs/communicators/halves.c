/* Splits MPI_COMM_WORLD twice, and talks on the second split's parts: a program for any number of ranks, which takes any
 * arguments. It ends no sooner than a file exists that the variable AWAITED names. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Comm all, half;
    int rank, size, from[503] = {0}, to[503];
    MPI_Init(&argc, &argv);
    MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank < (size + 1) / 2, 0, &half);
    MPI_Comm_rank(half, &rank);
    MPI_Comm_size(half, &size);
    for (int round = 0; round < 7; round++) {
        MPI_Sendrecv(from, 503, MPI_INT, (rank + 1) % size, 0, to, 503, MPI_INT, (rank + size - 1) % size, 0, half,
                     MPI_STATUS_IGNORE);
        MPI_Allreduce(from, to, 5, MPI_INT, MPI_SUM, half);
    }
    const char *awaited = getenv("AWAITED");
    while (awaited != NULL && access(awaited, F_OK) != 0) usleep(1000);
    MPI_Comm_free(&half);
    MPI_Comm_free(&all);
    MPI_Finalize();
    return 0;
}
