/* Each mode of blocking send, with a size of its own, from 0 to 1. The receives of 1 offer more room than the
 * message needs, ask for a status or not, and know the sender or not. */
#include "program.h"

enum { SEND = 1009, BSEND = 2003, SSEND = 4001, RSEND = 8009, ROOM = 20011 };
static char data[ROOM], attached[BSEND + MPI_BSEND_OVERHEAD];

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Status status;
    if (rank == 0) {
        memset(data, 7, sizeof data);
        MPI_Send(data, SEND, MPI_BYTE, 1, 11, MPI_COMM_WORLD);
        MPI_Buffer_attach(attached, sizeof attached);
        MPI_Bsend(data, BSEND, MPI_BYTE, 1, 12, MPI_COMM_WORLD);
        void *back;
        int length;
        MPI_Buffer_detach(&back, &length);
        EXPECT(back == attached && length == sizeof attached);
        MPI_Ssend(data, SSEND, MPI_BYTE, 1, 13, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 14, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Rsend(data, RSEND, MPI_BYTE, 1, 15, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(data, ROOM, MPI_BYTE, 0, 11, MPI_COMM_WORLD, &status);
        expect_status(&status, 0, 11, SEND);
        EXPECT(data[SEND - 1] == 7 && data[SEND] == 0);
        MPI_Recv(data, ROOM, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        expect_status(&status, 0, 12, BSEND);
        MPI_Recv(data, ROOM, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Request ready;
        MPI_Irecv(data, ROOM, MPI_BYTE, 0, 15, MPI_COMM_WORLD, &ready);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 14, MPI_COMM_WORLD);
        MPI_Wait(&ready, &status);
        expect_status(&status, 0, 15, RSEND);
        EXPECT(data[RSEND - 1] == 7 && data[RSEND] == 0);
    }
    MPI_Finalize();
    return 0;
}
