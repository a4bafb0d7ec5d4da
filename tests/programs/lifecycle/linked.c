/* Linked with the profiler before MPI. */
#include <mpi.h>

int main(int argc, char **argv) {
    static unsigned char out[400], in[400];
    MPI_Init(&argc, &argv);
    MPI_Allreduce(out, in, 311, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
