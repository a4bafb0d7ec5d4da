/* Seconds that slow calls take, one after the other: the difference between a run without and one with the profiler is what the
 * profiler costs where it may take the path of every call.
 *
 *   slow_calls CALLS MICROSECONDS FRAMES
 *
 * Two ranks. Rank 0 sends a message and waits for the answer, which rank 1 gives MICROSECONDS later, so that whatever rank 0 does
 * after a call puts off the next one. Below main FRAMES functions are on its stack. Rank 0 prints the seconds. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void ask(void) {
    char word = 0;
    MPI_Send(&word, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(&word, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void answer(double after_s) {
    char word = 0;
    MPI_Recv(&word, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const double until_s = now_s() + after_s;
    while (now_s() < until_s) {
    }
    MPI_Send(&word, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
}

__attribute__((noinline)) static void ask_below(int frames) {
    if (frames == 0) {
        ask();
        return;
    }
    ask_below(frames - 1);
    /* So that the call is no jump. */
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "slow_calls CALLS MICROSECONDS FRAMES\n");
        return 2;
    }
    const long calls = atol(argv[1]);
    const double after_s = 1e-6 * atof(argv[2]);
    const int frames = atoi(argv[3]);
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        fprintf(stderr, "slow_calls runs on 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double start_s = now_s();
    for (long call = 0; call < calls; call++) {
        if (rank == 0)
            ask_below(frames);
        else
            answer(after_s);
    }
    if (rank == 0) printf("%.9f\n", now_s() - start_s);
    MPI_Finalize();
    return 0;
}
