/* Ends MPI from a handler of exit; with an argument from a destructor, which runs later. */
#include <mpi.h>
#include <stdlib.h>

static int in_destructor;

static void end(void) {
    MPI_Finalize();
}

__attribute__((destructor)) static void last(void) {
    if (in_destructor) {
        end();
    }
}

int main(int argc, char **argv) {
    static unsigned char out[400], in[400];
    in_destructor = argc > 1;
    MPI_Init(&argc, &argv);
    MPI_Allreduce(out, in, 331, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    if (!in_destructor) {
        atexit(end);
    }
    return 0;
}
