/* Arguments: `begin` or `end`, and the path of a library (this file with -DLIBRARY) that has a thread with a communicator of its own, as a
 * logger or a progress thread has. Its constructor starts the thread and, with `begin`, waits for its first call; its destructor has the
 * thread free the communicator, and joins it. The loader's lock is held as long, so that no call may need it.
 *
 * Right: it ends, and prints "all is well". */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef LIBRARY

static pthread_t thread;
static atomic_int is_ready, is_over;

static void *serve(void *nothing) {
    MPI_Comm own;
    int found;
    MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
    is_ready = 1;
    MPI_Comm_dup(MPI_COMM_SELF, &own);
    while (!is_over) usleep(1000);
    MPI_Comm_free(&own);
    return nothing;
}

__attribute__((constructor)) static void begin(void) {
    const int waits = strcmp(getenv("LOADER_WAITS"), "begin") == 0;
    pthread_create(&thread, NULL, serve, NULL);
    while (waits && !is_ready) usleep(1000);
}

__attribute__((destructor)) static void end(void) {
    is_over = 1;
    pthread_join(thread, NULL);
}

#else

int main(int argc, char **argv) {
    int level;
    if (argc != 3) return 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level < MPI_THREAD_MULTIPLE) return 2;
    setenv("LOADER_WAITS", argv[1], 1);
    void *library = dlopen(argv[2], RTLD_NOW);
    if (library == NULL) return 3;
    usleep(200 * 1000);
    MPI_Barrier(MPI_COMM_WORLD);
    dlclose(library);
    MPI_Barrier(MPI_COMM_WORLD);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Finalize();
    if (rank == 0) puts("all is well");
    return 0;
}

#endif
