/* Dies of the signal that the argument names, in the middle of the run. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    static unsigned char out[400], in[400];
    MPI_Init(&argc, &argv);
    MPI_Allreduce(out, in, 313, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    int number = argc > 1 ? atoi(argv[1]) : SIGKILL;
    signal(number, SIG_DFL);
    raise(number);
    MPI_Finalize();
    return 0;
}
