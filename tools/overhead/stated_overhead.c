/* Seconds that calls take, one after the other or with other work between them: the difference between a run without and one with
 * the profiler is what the profiler costs, which it states itself, too.
 *
 *   stated_overhead barrier|allreduce|iprobe|messages|array CALLS KIB
 *
 * CALLS calls, each after a walk through KIB KiB of memory; with `messages` an Irecv, an Isend and a Waitall take turns, with
 * `array` 500 of each of the first two and a Waitall for all. One process
 * on MPI_COMM_WORLD. Prints the seconds in them. A call of one process that takes longer than a millisecond lost its core to another
 * process, which is no cost of the call: it is left out. */
#define _GNU_SOURCE
#include "tick.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE = 64, ARRAY = 1000, LONGEST_TICKS = 1 << 21 };

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    double in[8] = {0}, out[8] = {0};
    static MPI_Request requests[ARRAY];
    static MPI_Status statuses[ARRAY];
    if (argc != 4) {
        fprintf(stderr, "stated_overhead barrier|allreduce|iprobe|messages|array CALLS KIB\n");
        return 2;
    }
    const char *kind = argv[1];
    const long calls = atol(argv[2]);
    const size_t bytes = (size_t)atol(argv[3]) << 10;
    volatile char *memory = calloc(bytes + 1, 1);
    if (memory == NULL) return 2;
    MPI_Init(&argc, &argv);
    /* Requests that a Waitall completes; none of other calls. */
    const int waited = strcmp(kind, "messages") == 0 ? 2 : strcmp(kind, "array") == 0 ? ARRAY : 0;
    const int barrier = strcmp(kind, "barrier") == 0;
    const int probe = strcmp(kind, "iprobe") == 0;
    int flag;
    unsigned long long ticks = 0;
    const double start_s = now_s();
    const unsigned long long start = tick();
    for (long i = 0; i < calls; ++i) {
        for (size_t at = 0; at < bytes; at += LINE) ++memory[at];
        const int turn = (int)(i % (waited + 1));
        const unsigned long long before = tick();
        if (barrier)
            MPI_Barrier(MPI_COMM_WORLD);
        else if (probe)
            MPI_Iprobe(0, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        else if (waited == 0)
            MPI_Allreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        else if (turn == waited)
            MPI_Waitall(waited, requests, statuses);
        else if (turn % 2 == 0)
            MPI_Irecv(out, 8, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &requests[turn]);
        else
            MPI_Isend(in, 8, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &requests[turn]);
        const unsigned long long took = tick() - before;
        if (took < LONGEST_TICKS) ticks += took;
    }
    const double s_per_tick = (now_s() - start_s) / (double)(tick() - start);
    if (calls % (waited + 1) != 0) {
        fprintf(stderr, "stated_overhead: CALLS of %s are a multiple of %d\n", kind, waited + 1);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    printf("%.9f\n", s_per_tick * (double)ticks);
    MPI_Finalize();
    return 0;
}
