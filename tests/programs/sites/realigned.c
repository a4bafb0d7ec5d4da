/* Calls below a function whose stack the compiler aligns for vectors, and which has an array of a length that is known at run time: its
 * caller's stack pointer is in memory (DW_CFA_def_cfa_expression). With the argument "left" an error handler leaves one call by longjmp first.
 * With "ended" the program's first thread has ended when the others call MPI. */
#include "program.h"
#include <pthread.h>
#include <setjmp.h>
#include <string.h>
#include <unistd.h>

static jmp_buf before;

static void leave(MPI_Comm *comm, int *error, ...) {
    (void)comm, (void)error;
    longjmp(before, 1);
}

__attribute__((noipa)) static void leaf(void) {
    if (rank == 0) usleep(20000);
    MPI_Barrier(MPI_COMM_WORLD); /* leaf calls */
    __asm__ volatile("" ::: "memory");
}

__attribute__((noipa)) static double kernel(int count) {
    double aligned[4] __attribute__((aligned(64))), work[count];
    memset(work, 1, sizeof work);
    aligned[0] = work[count - 1];
    __asm__ volatile("" ::"r"(aligned), "r"(work) : "memory");
    leaf(); /* kernel calls */
    return aligned[0];
}

__attribute__((noipa)) static double advance(int steps) {
    double sum = 0;
    for (int step = 0; step < steps; step++) sum += kernel(5 + step); /* advance calls */
    return sum;
}

static int all(const char *how) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(how, "left") == 0) {
        MPI_Errhandler handler;
        MPI_Comm_create_errhandler(leave, &handler);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
        if (setjmp(before) == 0) MPI_Send(NULL, 0, MPI_BYTE, 77, 0, MPI_COMM_WORLD);
    }
    double sum = advance(40); /* all calls */
    MPI_Finalize();
    return sum < 0;
}

static void *in_thread(void *nothing) {
    (void)nothing;
    usleep(100000);
    int provided;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    exit(all("ended"));
}

int main(int argc, char **argv) {
    EXPECT(argc == 2);
    if (strcmp(argv[1], "ended") == 0) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, in_thread, NULL) == 0);
        pthread_exit(NULL);
    }
    MPI_Init(&argc, &argv);
    return all(argv[1]);
}
