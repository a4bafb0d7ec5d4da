/* Requests that are cancelled, found to be so by MPI_Request_get_status, and freed. Prints how many of the sends
 * were, and how often it tested. */
#include "program.h"

enum { ROOM = 5003, MESSAGE = 1709, ROUNDS = 5 };

/* Returns whether the operation was cancelled, as soon as that is known. */
static int was_cancelled(MPI_Request request, int *looks) {
    MPI_Status status;
    int flag = 0, cancelled = 0;
    for (int i = 0; !flag && i < 1000; i++, ++*looks) MPI_Request_get_status(request, &flag, &status);
    if (flag) MPI_Test_cancelled(&status, &cancelled);
    return cancelled;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[ROOM], out[MESSAGE];
    MPI_Request request;
    int sends = 0, looks = 0;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Issend(out, MESSAGE, MPI_BYTE, 0, 0, MPI_COMM_SELF, &request);
        MPI_Cancel(&request);
        if (was_cancelled(request, &looks)) {
            MPI_Request_free(&request);
            sends++;
        } else {
            MPI_Recv(data, ROOM, MPI_BYTE, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Irecv(data, ROOM, MPI_BYTE, 0, 1, MPI_COMM_SELF, &request);
        MPI_Cancel(&request);
        EXPECT(was_cancelled(request, &looks));
        MPI_Request_free(&request);
    }
    printf("sends of %d: %d\nlooks of %d: %d\n", rank, sends, rank, looks);
    MPI_Finalize();
    return 0;
}
