/* Seconds that calls take, one after the other or with other work between them: the difference between a run without and one with
 * the profiler is what the profiler costs, which it states itself, too.
 *
 *   stated_overhead barrier|allreduce|iprobe|messages CALLS KIB
 *
 * CALLS calls, each after a walk through KIB KiB of memory; with `messages` an Irecv, an Isend and a Waitall take turns. One process
 * on MPI_COMM_WORLD. Prints the seconds in them. A call of one process that takes longer than a millisecond lost its core to another
 * process, which is no cost of the call: it is left out. */
#define _GNU_SOURCE
#include "tick.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE = 64, LONGEST_TICKS = 1 << 21 };

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    double in[8] = {0}, out[8] = {0};
    MPI_Request requests[2];
    MPI_Status statuses[2];
    if (argc != 4) {
        fprintf(stderr, "stated_overhead barrier|allreduce|iprobe|messages CALLS KIB\n");
        return 2;
    }
    const char *kind = argv[1];
    const long calls = atol(argv[2]);
    const size_t bytes = (size_t)atol(argv[3]) << 10;
    volatile char *memory = calloc(bytes + 1, 1);
    if (memory == NULL) return 2;
    MPI_Init(&argc, &argv);
    const int messages = strcmp(kind, "messages") == 0, barrier = strcmp(kind, "barrier") == 0;
    const int probe = strcmp(kind, "iprobe") == 0;
    int flag;
    unsigned long long ticks = 0;
    const double start_s = now_s();
    const unsigned long long start = tick();
    for (long i = 0; i < calls; ++i) {
        for (size_t at = 0; at < bytes; at += LINE) ++memory[at];
        const unsigned long long before = tick();
        if (barrier)
            MPI_Barrier(MPI_COMM_WORLD);
        else if (probe)
            MPI_Iprobe(0, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        else if (!messages)
            MPI_Allreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        else if (i % 3 == 0)
            MPI_Irecv(out, 8, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &requests[0]);
        else if (i % 3 == 1)
            MPI_Isend(in, 8, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &requests[1]);
        else
            MPI_Waitall(2, requests, statuses);
        const unsigned long long took = tick() - before;
        if (took < LONGEST_TICKS) ticks += took;
    }
    const double s_per_tick = (now_s() - start_s) / (double)(tick() - start);
    if (messages && calls % 3 != 0) {
        fprintf(stderr, "stated_overhead: CALLS of messages are a multiple of 3\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    printf("%.9f\n", s_per_tick * (double)ticks);
    MPI_Finalize();
    return 0;
}
