/* An error handler that leaves a call by longjmp, on rank 1. Later calls are made from where setjmp was called, or from
 * deeper functions whose frames cover those of the call that was left. */
#include "program.h"
#include <setjmp.h>

static jmp_buf back;

static void leave(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    longjmp(back, 1);
}

static void work(void) {
    static char data[709];
    MPI_Request requests[2];
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Irecv(data, 709, MPI_BYTE, 1 - rank, 0, dup, &requests[0]);
    MPI_Isend(data, 701, MPI_BYTE, 1 - rank, 0, dup, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&dup);
}

__attribute__((noinline)) static void deeper(int levels) {
    char room[300];
    /* Left as it is: what the call that was left has stored there. */
    __asm__ volatile("" : : "r"(room) : "memory");
    if (levels > 0)
        deeper(levels - 1);
    else
        work();
    __asm__ volatile("" : : "r"(room) : "memory");
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Errhandler handler;
    MPI_Request null = MPI_REQUEST_NULL, requests[1];
    int data = 0;
    MPI_Comm_create_errhandler(leave, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    if (rank == 1 && setjmp(back) == 0) MPI_Send(&data, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    /* The arrays of the profiler are in use in this one. */
    requests[0] = null;
    if (rank == 1 && setjmp(back) == 0) MPI_Waitall(-1, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    if (argc > 1)
        deeper(atoi(argv[1]));
    else
        work();
    MPI_Finalize();
    return 0;
}
