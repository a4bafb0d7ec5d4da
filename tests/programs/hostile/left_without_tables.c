/* An error handler leaves a call by longjmp, on rank 1, in code without unwind tables and frame pointers, whose stack cannot be walked.
 * Right: the 1009 calls after it are counted. */
#include "program.h"
#include <setjmp.h>

static jmp_buf back;

static void leave(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    longjmp(back, 1);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Errhandler handler;
    int data = 0, sum;
    MPI_Comm_create_errhandler(leave, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    if (rank == 1 && setjmp(back) == 0) MPI_Send(&data, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 1009; i++) MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    MPI_Finalize();
    return 0;
}
