/* A function whose unwind table, written by hand, has an expression that never ends is on the path of slow calls, and of the call
 * after one that an error handler left by longjmp. Nobody unwinds there but a profiler. */
#include "../program.h"
#include "by_table.h"
#include <setjmp.h>
#include <unistd.h>

enum { CALLS = 20 };

static void slow(void) {
    if (rank == 0) usleep(20 * 1000);
    MPI_Barrier(MPI_COMM_WORLD);
    __asm__ volatile("");
}

static jmp_buf before_the_error;

static void leave(MPI_Comm *comm, int *error, ...) {
    (void)comm, (void)error;
    longjmp(before_the_error, 1);
}

/* MPI refuses a negative count, and never returns. */
static void call_that_is_left(void) {
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(leave, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    int nothing = 0;
    if (!setjmp(before_the_error)) MPI_Send(&nothing, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (int call = 0; call < CALLS; call++) by_table(slow);
    call_that_is_left();
    by_table(slow);
    return MPI_Finalize();
}
