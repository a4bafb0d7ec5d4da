// Where MPICH over UCX finds nothing to do for a while, a pause: preloaded into programs with more ranks than cores.
//
// MPICH's ranks spin while they wait, and Debian's build of 4.0 never yields, whatever MPIR_CVAR_POLLS_BEFORE_YIELD says:
// each message then waits until the ranks that only wait have used up their slices.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

enum { EAGER_POLLS = 1000, POLLS_BETWEEN = 10, PAUSE_NS = 50000 };

// Progress of UCX; MPICH polls it whenever it waits, also for what comes through shared memory.
unsigned ucp_worker_progress(void *worker) {
    static unsigned (*next)(void *);
    static unsigned idle;
    if (!next) next = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
    unsigned events = next(worker);
    if (events) {
        idle = 0;
    } else if (++idle > EAGER_POLLS) {
        struct timespec pause = {0, PAUSE_NS};
        nanosleep(&pause, NULL);
        idle = EAGER_POLLS - POLLS_BETWEEN;
    }
    return events;
}
