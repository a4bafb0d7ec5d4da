/* Rank 1 makes all its MPI calls by their PMPI_ names, from PMPI_Init on, as one does that has MPI linked statically or
 * takes functions from libmpi's handle. The library is in its process and sees none of its calls. With the argument
 * "nocomm" no rank makes a communicator.
 * Right: both ranks print "ok"; the profile has rank 0 alone: its MPI_Comm_dup, and one MPI_Barrier and one
 * MPI_Comm_free on the copy. */
#include "common.h"

int main(int argc, char **argv) {
    MPI_Comm dup;
    int with = !is(argc, argv, "nocomm");
    watchdog();
    if (launched_rank() == 1) {
        PMPI_Init(&argc, &argv);
        if (with) {
            PMPI_Comm_dup(MPI_COMM_WORLD, &dup);
            PMPI_Barrier(dup);
            PMPI_Comm_free(&dup);
        }
        ok(1);
        PMPI_Finalize();
    } else {
        MPI_Init(&argc, &argv);
        if (with) {
            MPI_Comm_dup(MPI_COMM_WORLD, &dup);
            MPI_Barrier(dup);
            MPI_Comm_free(&dup);
        }
        ok(0);
        MPI_Finalize();
    }
    return 0;
}
