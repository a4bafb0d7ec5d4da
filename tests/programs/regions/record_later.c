/* Switches recording on in the middle, which does nothing where it is on already. */
#include <mpi.h>

int main(int argc, char **argv) {
    static unsigned char out[400], in[400];
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Allreduce(out, in, 211, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Pcontrol(1);
    MPI_Allreduce(out, in, 223, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    MPI_Allreduce(out, in, 227, MPI_BYTE, MPI_BOR, comm);
    MPI_Pcontrol(0);
    MPI_Allreduce(out, in, 229, MPI_BYTE, MPI_BOR, comm);
    MPI_Finalize();
    return 0;
}
