/* A thread that is to be cancelled makes and frees 2003 communicators, one after the other, before it comes to where it may end. MPICH has
 * no such place in these calls. Right: rank 0 prints "whole" and "ok"; 2003 calls of MPI_Comm_dup, MPI_Barrier and MPI_Comm_free each. */
#include "common.h"
#include <pthread.h>

enum { COMMUNICATORS = 2003 };

static void *make(void *ignored) {
    pthread_cancel(pthread_self());
    for (int i = 0; i < COMMUNICATORS; i++) {
        MPI_Comm made;
        MPI_Comm_dup(MPI_COMM_SELF, &made);
        MPI_Barrier(made);
        MPI_Comm_free(&made);
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    (void)ignored;
    return "whole";
}

int main(int argc, char **argv) {
    int provided;
    pthread_t thread;
    void *result;
    watchdog();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE || pthread_create(&thread, NULL, make, NULL) != 0) return 1;
    pthread_join(thread, &result);
    puts(result == PTHREAD_CANCELED ? "cancelled" : (const char *)result);
    ok(0);
    MPI_Finalize();
    return 0;
}
