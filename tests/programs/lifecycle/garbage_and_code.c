/* Writes what is no text to standard output, and exits with code 3. One rank does both: a launcher ends the others as
 * soon as one has failed, with what they have yet to print. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    unsigned state = 7;
    for (int k = 0; rank == 0 && k < 100003; k++) {
        state = state * 1664525 + 1013904223;
        putchar((int)(state >> 24));
    }
    fflush(stdout);
    MPI_Finalize();
    return rank == 0 ? 3 : 0;
}
