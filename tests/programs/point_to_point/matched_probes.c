/* Mprobe and Improbe take a message out of the queue, to be received by Mrecv or Imrecv. Prints how often
 * Improbe was called. */
#include "program.h"

enum { FIRST = 1601, SECOND = 1607, ROOM = 7001 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[ROOM];
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    if (rank == 0) {
        MPI_Send(data, FIRST, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Send(data, SECOND, MPI_BYTE, 1, 2, dup);
    } else if (rank == 1) {
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        expect_status(&status, 0, 1, FIRST);
        MPI_Mrecv(data, ROOM, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        int asked = 0;
        for (int flag = 0; !flag; asked++) MPI_Improbe(0, 2, dup, &flag, &message, &status);
        MPI_Imrecv(data, ROOM, MPI_BYTE, &message, &request);
        MPI_Wait(&request, &status);
        expect_status(&status, 0, 2, SECOND);
        printf("asked %d\n", asked);
    }
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
