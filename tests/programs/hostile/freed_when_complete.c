/* Receives that are complete when they are freed, as MPI_Request_get_status reported: nonblocking, persistent, matched. */
#include "program.h"

enum { ROOM = 9001 };

static void free_when_complete(MPI_Request request) {
    int flag = 0;
    while (!flag) MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[ROOM];
    MPI_Request request;
    MPI_Message message;
    if (rank == 0) {
        MPI_Irecv(data, ROOM, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
        free_when_complete(request);
        MPI_Recv_init(data, ROOM, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        free_when_complete(request);
        MPI_Mprobe(1, 2, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv(data, ROOM, MPI_BYTE, &message, &request);
        free_when_complete(request);
    } else if (rank == 1) {
        for (int i = 0; i < 3; i++) MPI_Send(data, 4001 + 10 * i, MPI_BYTE, 0, i, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
