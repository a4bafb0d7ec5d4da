/* The address space is limited to little more than is taken:
 *   finalize  before MPI_Finalize
 *   waitall   before completion calls on a million of requests, of which none is open
 * Right: both ranks print "ok". After finalize the counts are in the segments, and the profiler says so; after waitall the
 * profile is there, and counts the calls as not seen. */
#include "common.h"
#include <malloc.h>
#include <sys/resource.h>

static void leave(long kib) {
    char line[256];
    long taken = 0;
    struct rlimit limit;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "VmSize: %ld", &taken);
    if (file) fclose(file);
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = kib < 0 ? limit.rlim_max : (rlim_t)(taken + kib) << 10;
    setrlimit(RLIMIT_AS, &limit);
}

int main(int argc, char **argv) {
    enum { MANY = 1 << 20 };
    MPI_Request *requests;
    int rank, size, in, out = 1, flag, index;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 50; i++) {
        MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, 0, &in, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Allreduce(&out, &in, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (is(argc, argv, "waitall")) {
        requests = malloc(MANY * sizeof *requests);
        for (int i = 0; i < MANY; i++) requests[i] = MPI_REQUEST_NULL;
        leave(16 << 10);
        MPI_Testany(MANY, requests, &index, &flag, MPI_STATUS_IGNORE);
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
        leave(-1);
        free(requests);
    } else {
        malloc_trim(0);
        leave(256);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    ok(rank);
    MPI_Finalize();
    return 0;
}
