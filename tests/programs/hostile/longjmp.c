/* Rank 1 leaves a failing MPI_Send by longjmp from its error handler, as R, Tcl and test frameworks do; then all make a
 * communicator and use it.
 * Right: both ranks print "ok"; each has one MPI_Comm_dup on W, and one MPI_Barrier on the copy. */
#include "common.h"
#include <setjmp.h>

static jmp_buf back;

static void leave(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
    longjmp(back, 1);
}

int main(int argc, char **argv) {
    MPI_Errhandler handler;
    MPI_Comm dup;
    int rank, data = 0;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(leave, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    /* There is no rank 99. */
    if (rank == 1 && setjmp(back) == 0) MPI_Send(&data, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Barrier(dup);
    MPI_Comm_free(&dup);
    ok(rank);
    MPI_Finalize();
    return 0;
}
