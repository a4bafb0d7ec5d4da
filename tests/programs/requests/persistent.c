/* Persistent requests of every kind, started again and again, one by one or together, also of two communicators
 * at once. The receives offer more room than the messages need. */
#include "program.h"

enum { ROUNDS = 6, MODES = 4, ROOM = 20011, EXTRA = 503 };
static const int bytes[MODES] = {1103, 2111, 4111, 8111};
static char data[MODES + 1][ROOM], attached[2111 + MPI_BSEND_OVERHEAD];

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Request requests[MODES + 1];
    MPI_Status statuses[MODES + 1];
    MPI_Comm comm = MPI_COMM_WORLD;
    if (rank == 0) {
        MPI_Buffer_attach(attached, sizeof attached);
        MPI_Send_init(data[0], bytes[0], MPI_BYTE, 1, 0, comm, &requests[0]);
        MPI_Bsend_init(data[1], bytes[1], MPI_BYTE, 1, 1, comm, &requests[1]);
        MPI_Ssend_init(data[2], bytes[2], MPI_BYTE, 1, 2, comm, &requests[2]);
        MPI_Rsend_init(data[3], bytes[3], MPI_BYTE, 1, 3, comm, &requests[3]);
        MPI_Send_init(data[4], EXTRA, MPI_BYTE, 1, 4, dup, &requests[4]);
    } else {
        for (int i = 0; i < MODES; i++) MPI_Recv_init(data[i], ROOM, MPI_BYTE, 0, i, comm, &requests[i]);
        MPI_Recv_init(data[4], ROOM, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, dup, &requests[4]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0) MPI_Barrier(MPI_COMM_WORLD); /* the ready send needs its receive */
        if (round % 2)
            for (int i = 0; i < MODES; i++) MPI_Start(&requests[i]);
        else
            MPI_Startall(MODES + 1, requests);
        if (rank == 1) MPI_Barrier(MPI_COMM_WORLD);
        if (round % 2)
            for (int i = 0; i < MODES; i++) MPI_Wait(&requests[i], &statuses[i]);
        else
            MPI_Waitall(MODES + 1, requests, statuses);
        for (int i = 0; rank == 1 && i < MODES; i++) expect_status(&statuses[i], 0, i, bytes[i]);
        if (rank == 1 && round % 2 == 0) expect_status(&statuses[4], 0, 4, EXTRA);
    }
    for (int i = 0; i <= MODES; i++) MPI_Request_free(&requests[i]);
    if (rank == 0) {
        void *back;
        int length;
        MPI_Buffer_detach(&back, &length);
    }
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
