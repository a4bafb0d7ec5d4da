/* Two threads that make communicators at the same time, in rounds. */
#pragma once
#include "common.h"
#include <pthread.h>

#ifndef ROUNDS
#define ROUNDS 300
#endif

static pthread_barrier_t together;
static int rank;

/* One round of a thread, 0 or 1. */
static void in_round(int thread, int round);

static void *run_rounds(void *thread) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&together);
        in_round((int)(size_t)thread, round);
    }
    return NULL;
}

static inline void run_threads(void) {
    pthread_t threads[2];
    pthread_barrier_init(&together, NULL, 2);
    for (size_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run_rounds, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

/* Starts MPI for threads; ends the program where the MPI is not built for them. */
static inline void begin(int *argc, char ***argv) {
    int provided;
    watchdog();
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (provided != MPI_THREAD_MULTIPLE) {
        puts("no threads");
        MPI_Finalize();
        exit(0);
    }
}

static inline void end(void) {
    ok(rank);
    MPI_Finalize();
}

/* A broadcast from rank 0 of as many bytes as 100 for thread 0 and 200 for thread 1. */
static inline void use(MPI_Comm comm, int thread) {
    static char data[2][200];
    MPI_Bcast(data[thread], 100 * (thread + 1), MPI_BYTE, 0, comm);
}
