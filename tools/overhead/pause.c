// Where an MPI finds nothing to do for a while, a pause: preloaded into programs with more ranks
// than cores.
//
// MPICH's ranks spin while they wait, and Debian's build of 4.0 never yields, whatever
// MPIR_CVAR_POLLS_BEFORE_YIELD says: each message then waits until the ranks that only wait have
// used up their slices. Open MPI's ranks yield where there are more of them than slots, but the
// kernel charges each yield as a whole slice (Linux 6.18), so that anything else that runs beside
// them leaves them nearly nothing.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EAGER_POLLS = 1000, POLLS_BETWEEN = 10, PAUSE_NS = 50000 };

static void pause_now(void) {
    struct timespec pause = {0, PAUSE_NS};
    nanosleep(&pause, NULL);
}

// Progress of UCX; MPICH polls it whenever it waits, also for what comes through shared memory.
unsigned ucp_worker_progress(void *worker) {
    static unsigned (*next)(void *);
    static unsigned idle;
    if (!next) next = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
    unsigned events = next(worker);
    if (events) {
        idle = 0;
    } else if (++idle > EAGER_POLLS) {
        pause_now();
        idle = EAGER_POLLS - POLLS_BETWEEN;
    }
    return events;
}

// Open MPI's progress yields each time it finds nothing.
int sched_yield(void) {
    static _Thread_local unsigned yields;
    if (++yields % POLLS_BETWEEN == 0) {
        pause_now();
        return 0;
    }
    return (int)syscall(SYS_sched_yield);
}
