/* For programs that run on several nodes to MPI_Finalize. MPICH before 4.2 over UCX disconnects there, and may wait for
 * ever for processes that are in a barrier already, in which they do nothing else (github.com/pmodels/mpich/pull/6596).
 * These two, which its library finds before those of UCX, give what is under way the time to arrive, and leave the
 * connections to the end of the process. */
#pragma once
#include <mpi.h>

#if defined MPICH_NUMVERSION && MPICH_NUMVERSION < 40200000
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

static void *worker;

int ucp_worker_create(void *context, const void *parameters, void **created) {
    int (*create)(void *, const void *, void **) = dlsym(RTLD_NEXT, "ucp_worker_create");
    int code = create(context, parameters, created);
    worker = *created;
    return code;
}

void *ucp_disconnect_nb(void *endpoint) {
    static time_t since_ns;
    unsigned (*progress)(void *) = dlsym(RTLD_NEXT, "ucp_worker_progress");
    struct timespec now;
    (void)endpoint;
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
        time_t now_ns = now.tv_sec * 1000000000 + now.tv_nsec;
        if (since_ns == 0) since_ns = now_ns;
        if (now_ns - since_ns > 200000000) return NULL;
        progress(worker);
    } while (1);
}
#endif
