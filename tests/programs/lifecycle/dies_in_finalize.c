/* All ranks come to MPI_Finalize. The one that the first argument names is killed there by its own hand, as soon as the
 * profile's directory, the second argument, is begun. Long names of regions make rows that take their time. */
#include "program.h"
#include <mpisee.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

static void *watch(void *directory) {
    while (access(directory, F_OK) != 0) sched_yield();
    kill(getpid(), SIGKILL);
    return NULL;
}

/* MPI_Finalize of Open MPI 5.0 sometimes waits for the dead. */
static void leave(int signal) {
    (void)signal;
    _exit(0);
}

int main(int argc, char **argv) {
    static char bytes[128];
    pthread_t watching;
    begin(&argc, &argv);
    EXPECT(argc == 3);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int number = 0; number < 2000; number++) {
        char name[200];
        snprintf(name, sizeof name, "%0150d", number);
        mpisee_region_begin(name);
        for (int count = 1; count <= 128; count *= 2) MPI_Bcast(bytes, count, MPI_BYTE, 0, MPI_COMM_SELF);
        mpisee_region_end();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == atoi(argv[1])) EXPECT(pthread_create(&watching, NULL, watch, argv[2]) == 0);
    signal(SIGALRM, leave);
    alarm(5);
    MPI_Finalize();
    return 0;
}
