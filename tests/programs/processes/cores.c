/* Computes or sleeps for a second on chosen cores. HOW:
 *
 *   same     every rank is bound to one core, the same, and computes
 *   own      every rank is bound to a core of its own, and computes
 *   sleep    every rank is bound to one core, the same, and sleeps
 *   threads  rank 0 is bound to one core and computes in 2 threads, the others sleep
 *
 * The processes may use the cores 0 to N-1 of those that they were given; with fewer cores than ranks they repeat. Each rank
 * prints its core. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SECOND = 1000000000 };

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * (long long)SECOND + time.tv_nsec;
}

static void *compute(void *unused) {
    for (long long begin = now(); now() - begin < SECOND;) {
        for (volatile int work = 0; work < 10000; work++) {
        }
    }
    return unused;
}

/* The core that is number `wanted` of those that the process may be given. */
static int core(int wanted) {
    cpu_set_t set;
    memset(&set, 0xff, sizeof set);
    sched_setaffinity(0, sizeof set, &set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        abort();
    }
    wanted %= CPU_COUNT(&set);
    for (int cpu = 0;; cpu++) {
        if (CPU_ISSET(cpu, &set) && wanted-- == 0) {
            return cpu;
        }
    }
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *how = argc > 1 ? argv[1] : "same";
    int own = core(strcmp(how, "own") == 0 ? rank : 0);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(own, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        abort();
    }
    printf("rank %d is on %d\n", rank, own);
    int is_idle = strcmp(how, "sleep") == 0 || (strcmp(how, "threads") == 0 && rank > 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_idle) {
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    } else if (strcmp(how, "threads") == 0) {
        pthread_t other;
        if (pthread_create(&other, NULL, compute, NULL) != 0) {
            abort();
        }
        compute(NULL);
        /* It lives on for a while, so that its time without a core is not lost. */
        MPI_Finalize();
        pthread_join(other, NULL);
        return 0;
    } else {
        compute(NULL);
    }
    MPI_Finalize();
    return 0;
}
