/* Linked into test programs, so that ranks that wait for each other share cores. A rank of MPICH that waits keeps its core until
 * the next tick of the scheduler, 10 ms on some kernels, while the rank for which it waits has none. With it a rank that finds
 * nothing lets another one run; Open MPI does so itself. Where times are not tested (TEST_RANKS_SLEEP), a rank that finds nothing
 * again and again sleeps, and leaves its core to other tests. It gives way at every 64th look only: beside busy processes each
 * time lasts milliseconds, and a program may poll 200,000 times. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 1000, SLEEP_NS = 100 * 1000, LOOKS = 64 };

static int sleeps;

__attribute__((constructor)) static void look(void) {
    sleeps = getenv("TEST_RANKS_SLEEP") != NULL;
}

/* Open MPI's, too. */
int sched_yield(void) {
    static __thread unsigned looks;
    return sleeps && ++looks % LOOKS ? 0 : (int)syscall(SYS_sched_yield);
}

/* After a look for messages, which has found some or none. */
static void give_way(int found, int yields) {
    static __thread int tries;
    tries = found ? 0 : tries + 1;
    if (sleeps && tries > TRIES) {
        struct timespec pause = {0, SLEEP_NS};
        nanosleep(&pause, NULL);
        tries = TRIES / 2;
    } else if (yields && !found) {
        sched_yield();
    }
}

/* The next function of that name; a program may have loaded MPI by itself, where RTLD_NEXT does not look. */
static void *next(const char *name, const char *library) {
    void *function = dlsym(RTLD_NEXT, name);
    return function ? function : dlsym(dlopen(library, RTLD_LAZY | RTLD_NOLOAD), name);
}

unsigned ucp_worker_progress(void *worker) {
    static unsigned (*progress)(void *);
    if (!progress) *(void **)&progress = next("ucp_worker_progress", "libucp.so.0");
    unsigned completed = progress(worker);
    give_way(completed > 0, 1);
    return completed;
}

int opal_progress(void) {
    static int (*progress)(void);
    if (!progress) *(void **)&progress = next("opal_progress", "libopen-pal.so.40");
    int events = progress();
    give_way(events > 0, 0);
    return events;
}
