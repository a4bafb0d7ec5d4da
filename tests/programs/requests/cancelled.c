/* Requests that are cancelled: receives that nothing matches, persistent ones among them that are used again, and a
 * synchronous send, of which the MPI library decides whether it still can be. Prints whether it was, and how
 * often it tested. */
#include "program.h"

enum { ROOM = 5003, MESSAGE = 1709, SEND = 2203 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[ROOM], out[MESSAGE];
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0, tests = 0, looks = 0;

    /* On S: cancelled, with a status and without; and one that is matched, cancelled too late. */
    for (int i = 0; i < 3; i++) {
        MPI_Irecv(data, ROOM, MPI_BYTE, 0, i, MPI_COMM_SELF, &request);
        if (i == 2) {
            MPI_Send(out, MESSAGE, MPI_BYTE, 0, i, MPI_COMM_SELF);
            int flag = 0;
            for (; !flag; looks++) MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
        }
        MPI_Cancel(&request);
        MPI_Wait(&request, i == 0 ? MPI_STATUS_IGNORE : &status);
        if (i > 0) MPI_Test_cancelled(&status, &cancelled);
        EXPECT(i == 0 || cancelled == (i == 1));
    }
    printf("looks of %d: %d\n", rank, looks);
    MPI_Recv_init(data, ROOM, MPI_BYTE, 0, 4, MPI_COMM_SELF, &request);
    for (int i = 0; i < 4; i++) {
        MPI_Start(&request);
        if (i % 2)
            MPI_Send(out, MESSAGE, MPI_BYTE, 0, 4, MPI_COMM_SELF);
        else
            MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        EXPECT(cancelled == (i % 2 == 0));
    }
    MPI_Request_free(&request);

    /* On W: 0 sends 1 a message whether the send is gone after a while; if not, 1 receives it. */
    if (rank == 0) {
        MPI_Issend(data, SEND, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        int flag = 0;
        for (; !flag && tests < 1000; tests++) MPI_Test(&request, &flag, &status);
        MPI_Ssend(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        for (; !flag; tests++) MPI_Test(&request, &flag, &status);
        MPI_Test_cancelled(&status, &cancelled);
        MPI_Send(&cancelled, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
        printf("cancelled %d\ntests %d\n", cancelled, tests);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Irecv(data, ROOM, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Recv(&cancelled, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (cancelled) MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
