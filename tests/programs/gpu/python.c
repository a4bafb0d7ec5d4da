/* MPI for python.py, and a launch from a thread that Python did not start. */
#include <fake.h>
#include <mpi.h>
#include <pthread.h>

int begin(void) {
    int rank;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int end(void) { return MPI_Finalize(); }

static void *run(void *accesses) {
    fake_launch(1, 1, 7, "copy", accesses, 1);
    return NULL;
}

int launch_in_thread(struct fake_access *accesses) {
    pthread_t thread;
    return pthread_create(&thread, NULL, run, accesses) || pthread_join(thread, NULL);
}
