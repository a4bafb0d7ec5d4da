/* MPI_Comm_idup is nonblocking. Process 1 calls it only after a message that process 0 sends between its own call and
 * the completion: a profiler that blocks in the call waits for ever. Then with two of them on their way, and on an
 * intercommunicator.
 */
#include <mpi.h>

static int rank;

static void duplicate(MPI_Comm parent, int how_many, const char *name) {
    MPI_Comm comms[2];
    MPI_Request requests[2];
    char token = 0;
    if (rank == 1) {
        MPI_Recv(&token, 1, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int k = 0; k < how_many; k++) {
        MPI_Comm_idup(parent, &comms[k], &requests[k]);
    }
    if (rank == 0) {
        MPI_Send(&token, 1, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
    }
    /* The later one first. */
    for (int k = how_many - 1; k >= 0; k--) {
        MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
        MPI_Comm_set_name(comms[k], name);
        MPI_Barrier(comms[k]);
    }
}

int main(int argc, char **argv) {
    MPI_Comm half, between;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    duplicate(MPI_COMM_WORLD, 1, "one");
    duplicate(MPI_COMM_WORLD, 2, "two");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 3, &between);
    duplicate(between, 1, "between");
    MPI_Finalize();
    return 0;
}
