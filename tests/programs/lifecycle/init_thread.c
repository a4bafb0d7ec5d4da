/* Begins with MPI_Init_thread, and prints the level that it got: 0 to 3 in the order of the standard. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    static unsigned char out[400], in[400];
    int provided, rank;
    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(out, in, 317, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d\n", provided == MPI_THREAD_SINGLE       ? 0
                       : provided == MPI_THREAD_FUNNELED   ? 1
                       : provided == MPI_THREAD_SERIALIZED ? 2
                                                           : 3);
    }
    MPI_Finalize();
    return 0;
}
