/* An error handler completes the MPI_Comm_idup that is open, and the variable with the new communicator goes away. Requests
 * on the communicator may then have the handle of that request.
 * Right: both ranks print "ok"; nothing of the duplicate is in the profile, which counts it as not seen, and what was done
 * on MPI_COMM_WORLD is. */
#include "common.h"
#include <sys/mman.h>

static MPI_Request open_request = MPI_REQUEST_NULL;

static void complete(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
    if (open_request != MPI_REQUEST_NULL) MPI_Wait(&open_request, MPI_STATUS_IGNORE);
}

/* Requests on a communicator of which the profiler does not know. */
static void use(MPI_Comm comm) {
    for (int i = 0; i < 20; i++) {
        MPI_Request request;
        MPI_Comm copy = MPI_COMM_NULL;
        if (i % 2) MPI_Ibarrier(comm, &request);
        else MPI_Comm_idup(comm, &copy, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (copy != MPI_COMM_NULL) MPI_Comm_free(&copy);
    }
    MPI_Barrier(comm);
}

int main(int argc, char **argv) {
    MPI_Errhandler handler;
    MPI_Comm refusing;
    int rank, nothing = 0;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(complete, &handler);
    MPI_Comm_dup(MPI_COMM_WORLD, &refusing);
    MPI_Comm_set_errhandler(refusing, handler);
    for (int i = 0; i < 3; i++) {
        MPI_Comm *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MPI_Comm_idup(MPI_COMM_WORLD, place, &open_request);
        MPI_Send(&nothing, 1, MPI_INT, 999999, 0, refusing);
        MPI_Comm copy = *place;
        munmap(place, 4096);
        use(copy);
        MPI_Comm_free(&copy);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&refusing);
    ok(rank);
    MPI_Finalize();
    return 0;
}
