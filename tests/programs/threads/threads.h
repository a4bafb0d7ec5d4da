/* Threads for programs with MPI_THREAD_MULTIPLE, each with its number. */
#pragma once
#include "program.h"
#include <pthread.h>

static inline void begin_with_threads(int *argc, char ***argv) {
    int provided;
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    EXPECT(provided == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

/* Runs `work` in `count` threads at the same time, each with a pointer to its number, on duplicates of `comm` that are
 * at `own` meanwhile, one for each. */
static inline void run_threads(int count, void *(*work)(void *), MPI_Comm comm, MPI_Comm own[]) {
    pthread_t threads[count];
    int numbers[count];
    for (int i = 0; i < count; i++) MPI_Comm_dup(comm, &own[i]);
    for (int i = 0; i < count; i++) {
        numbers[i] = i;
        EXPECT(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++) MPI_Comm_free(&own[i]);
}
