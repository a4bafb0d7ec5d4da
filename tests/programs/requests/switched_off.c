/* Recording is switched off and on between the start and the completion of requests, to itself. */
#include "program.h"

enum { ROOM = 90001 };
static char in[ROOM], out[ROOM];

/* A receive with a message of `bytes` bytes, on MPI_COMM_SELF; recording is on or off at its start and completion. */
static void receive(int bytes, int at_start, int at_completion) {
    MPI_Request request;
    MPI_Status status;
    MPI_Pcontrol(at_start);
    MPI_Irecv(in, ROOM, MPI_BYTE, 0, 1, MPI_COMM_SELF, &request);
    MPI_Pcontrol(0);
    MPI_Send(out, bytes, MPI_BYTE, 0, 1, MPI_COMM_SELF);
    MPI_Pcontrol(at_completion);
    MPI_Wait(&request, &status);
    expect_status(&status, 0, 1, bytes);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    receive(1709, 1, 1);
    receive(3413, 1, 0);
    receive(6823, 0, 1);
    receive(13649, 0, 0);

    /* Sends: the receive comes later, so that the large one is open when recording is switched. */
    MPI_Request requests[2];
    MPI_Pcontrol(1);
    MPI_Isend(out, 70019, MPI_BYTE, 0, 2, MPI_COMM_SELF, &requests[0]);
    MPI_Pcontrol(0);
    MPI_Isend(out, 80021, MPI_BYTE, 0, 3, MPI_COMM_SELF, &requests[1]);
    MPI_Recv(in, ROOM, MPI_BYTE, 0, 2, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Recv(in, ROOM, MPI_BYTE, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);

    /* A persistent receive that is made while off: its starts count while on. */
    MPI_Request request;
    MPI_Recv_init(in, ROOM, MPI_BYTE, 0, 4, MPI_COMM_SELF, &request);
    for (int i = 0; i < 2; i++) {
        MPI_Pcontrol(1);
        MPI_Start(&request);
        MPI_Pcontrol(0);
        MPI_Send(out, 27299 + i, MPI_BYTE, 0, 4, MPI_COMM_SELF);
        MPI_Pcontrol(i);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Pcontrol(0);
    MPI_Start(&request);
    MPI_Send(out, 54601, MPI_BYTE, 0, 4, MPI_COMM_SELF);
    MPI_Pcontrol(1);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    MPI_Finalize();
    return 0;
}
