/* Requests that are freed while they are active: with "send" of sends, whose bytes are known; with "receive" of a
 * receive, of which nobody learns what came. Then the same handles are given out for something else. */
#include "program.h"

enum { SENT = 70003, SMALL = 11, LATER = 70009 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[80000];
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Request request;
    int free_receive = !strcmp(argv[1], "receive");
    for (int i = 0; i < 100; i++) {
        if (rank == 0) {
            /* Not before the receive is freed, which may be tested for its message if that has arrived. */
            if (free_receive) MPI_Barrier(MPI_COMM_WORLD);
            MPI_Isend(data, SENT, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
            if (free_receive)
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            else
                MPI_Request_free(&request);
            EXPECT(request == MPI_REQUEST_NULL);
            MPI_Isend(data, SMALL, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
            if (free_receive)
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            else
                MPI_Request_free(&request);
            MPI_Isend(data, LATER, MPI_BYTE, 1, 0, dup, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            if (free_receive) {
                MPI_Irecv(data, sizeof data, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
                MPI_Request_free(&request);
                MPI_Barrier(MPI_COMM_WORLD);
            } else {
                MPI_Recv(data, sizeof data, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
            MPI_Recv(data, sizeof data, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Irecv(data, sizeof data, MPI_BYTE, 0, 0, dup, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
