/* A function whose unwind table, written by hand, has an expression that never ends is on the path of slow calls, and of the call
 * after one that an error handler left by longjmp. Nobody unwinds there but a profiler. */
#include "../program.h"
#include <setjmp.h>
#include <unistd.h>

enum { CALLS = 20 };

static void slow(void) {
    if (rank == 0) usleep(20 * 1000);
    MPI_Barrier(MPI_COMM_WORLD);
    __asm__ volatile("");
}

#if defined(__x86_64__)
void by_table(void (*function)(void));
/* DW_CFA_def_cfa_expression with DW_OP_skip -3, which jumps to itself. */
__asm__(".text\n"
        ".globl by_table\n"
        ".type by_table, @function\n"
        "by_table:\n"
        ".cfi_startproc\n"
        ".cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff\n"
        "sub $8, %rsp\n"
        "call *%rdi\n"
        "add $8, %rsp\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size by_table, . - by_table\n");
#else
static void by_table(void (*function)(void)) { function(); }
#endif

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
