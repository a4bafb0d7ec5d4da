/* Computes or sleeps for a second on chosen cores: cores HOW.
 *
 *   same     every rank is bound to one core, the same for all, and computes
 *   own      every rank is bound to a core of its own, as far as there are enough, and computes
 *   sleep    every rank is bound to one core, the same for all, and sleeps
 *   threads  all are bound to one core; rank 0 computes in two threads, the others sleep */
#define _GNU_SOURCE
#include "program.h"
#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { SECOND = 1000000000 };

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * (long long)SECOND + time.tv_nsec;
}

static void compute(void) {
    for (long long begin = now(); now() - begin < SECOND;)
        for (volatile int work = 0; work < 10000; work++) {
        }
}

/* Held until MPI is over: the times of a thread that has ended cannot be read any more. */
static pthread_mutex_t until_the_end = PTHREAD_MUTEX_INITIALIZER;

static void *other_thread(void *unused) {
    compute();
    pthread_mutex_lock(&until_the_end);
    pthread_mutex_unlock(&until_the_end);
    return unused;
}

/* Binds the process to the core that has this number among all that it may be given. */
static void bind_to(int wanted) {
    cpu_set_t all, one;
    memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
    EXPECT(sched_getaffinity(0, sizeof all, &all) == 0);
    wanted %= CPU_COUNT(&all);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all) || wanted-- > 0) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    EXPECT(sched_setaffinity(0, sizeof one, &one) == 0);
}

int main(int argc, char **argv) {
    pthread_t other;
    begin(&argc, &argv);
    EXPECT(argc == 2);
    const char *how = argv[1];
    int has_threads = strcmp(how, "threads") == 0 && rank == 0;
    int sleeps = strcmp(how, "sleep") == 0 || (strcmp(how, "threads") == 0 && rank > 0);
    bind_to(strcmp(how, "own") == 0 ? rank : 0);
    pthread_mutex_lock(&until_the_end);
    MPI_Barrier(MPI_COMM_WORLD);
    if (has_threads) EXPECT(pthread_create(&other, NULL, other_thread, NULL) == 0);
    if (sleeps) nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    else compute();
    MPI_Finalize();
    pthread_mutex_unlock(&until_the_end);
    if (has_threads) pthread_join(other, NULL);
    return 0;
}
