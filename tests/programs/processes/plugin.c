/* A plugin that uses MPI, for host.c. */
#include <mpi.h>
#include <stddef.h>

int run(void);

int run(void) {
    static unsigned char out[400], in[400];
    int rank;
    MPI_Comm half;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(out, in, 379, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Bcast(out, 383, MPI_BYTE, 0, half);
    MPI_Finalize();
    return 0;
}
