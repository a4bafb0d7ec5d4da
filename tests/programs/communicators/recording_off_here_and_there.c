/* Recording is switched off on process 0 alone while communicators are created; then on all but process 0. Their
 * names must be the same all the same.
 */
#include <mpi.h>

static int rank;

static void create(int off, const char *name) {
    MPI_Comm comm;
    MPI_Request request;
    MPI_Pcontrol(!off);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &comm);
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_set_name(comm, name);
    MPI_Pcontrol(1);
    MPI_Barrier(comm);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    create(rank == 0, "off on one");
    create(rank != 0, "off on the others");
    create(1, "off on all");
    MPI_Finalize();
    return 0;
}
