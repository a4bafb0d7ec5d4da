// Every second rank, from 1 on, has 300 regions, in the nth of which it probes n times for a message on
// MPI_COMM_SELF: more rows than travel at a time.
#include <mpi.h>
#include <mpisee.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, flag;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int n = 1; rank % 2 == 1 && n <= 300; n++) {
        char name[128];
        snprintf(name, sizeof name, "a region with a name that makes the rows long, the one with number %d", n);
        mpisee_region_begin(name);
        for (int i = 0; i < n; i++) MPI_Iprobe(0, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        mpisee_region_end();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
