/* A communicator is freed while communication on it goes on, and its handle given out again: the requests still
 * belong to the old one. */
#include "program.h"

enum { OLD = 70039, NEW = 70051, SMALL = 23, ROOM = 80021 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[3][ROOM];
    MPI_Comm old, new;
    MPI_Request requests[3];
    MPI_Status statuses[3];
    MPI_Comm_dup(MPI_COMM_WORLD, &old);
    if (rank == 0) {
        MPI_Irecv(data[0], ROOM, MPI_BYTE, 1, 0, old, &requests[0]);
        MPI_Irecv(data[1], ROOM, MPI_BYTE, 1, 1, old, &requests[1]);
    } else {
        MPI_Isend(data[0], OLD, MPI_BYTE, 0, 0, old, &requests[0]);
        MPI_Isend(data[1], SMALL, MPI_BYTE, 0, 1, old, &requests[1]);
    }
    MPI_Comm_free(&old);
    MPI_Comm_dup(MPI_COMM_WORLD, &new);
    if (rank == 0)
        MPI_Irecv(data[2], ROOM, MPI_BYTE, 1, 0, new, &requests[2]);
    else
        MPI_Isend(data[2], NEW, MPI_BYTE, 0, 0, new, &requests[2]);
    MPI_Waitall(3, requests, statuses);
    if (rank == 0) {
        expect_status(&statuses[0], 1, 0, OLD);
        expect_status(&statuses[1], 1, 1, SMALL);
        expect_status(&statuses[2], 1, 0, NEW);
    }
    MPI_Comm_free(&new);
    MPI_Finalize();
    return 0;
}
