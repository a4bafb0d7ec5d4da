/* A small MPI program as one starts it in many ways. Rank 0 prints its arguments, each on a line. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    static unsigned char out[400], in[400];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(out, in, 307, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    for (int k = 1; rank == 0 && k < argc; k++) {
        printf("<%s>\n", argv[k]);
    }
    MPI_Finalize();
    return 0;
}
