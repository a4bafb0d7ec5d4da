/* Linked into the test programs of MPICH. A rank of MPICH that waits keeps its core until the next tick of the scheduler, 10 ms on
 * some kernels, while the rank for which it waits has none. With it a rank that finds nothing lets another one run. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

unsigned ucp_worker_progress(void *worker) {
    static unsigned (*progress)(void *);
    /* A program may have loaded MPI by itself, where RTLD_NEXT does not look. */
    if (!progress) *(void **)&progress = dlsym(RTLD_NEXT, "ucp_worker_progress");
    if (!progress) *(void **)&progress = dlsym(dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD), "ucp_worker_progress");
    unsigned completed = progress(worker);
    if (!completed) sched_yield();
    return completed;
}
