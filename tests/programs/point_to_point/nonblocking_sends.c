/* Each mode of nonblocking send, with a size of its own, from 0 to 1, where the receives offer more room than
 * the messages need and are completed much later and out of order, with a status or without. */
#include "program.h"

enum { ISEND = 1013, IBSEND = 2011, ISSEND = 4003, IRSEND = 8011, ROOM = 20011 };
static char data[4][ROOM], attached[IBSEND + MPI_BSEND_OVERHEAD];

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Request requests[4];
    MPI_Status statuses[2];
    int index, done, indices[4];
    if (rank == 0) {
        MPI_Buffer_attach(attached, sizeof attached);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(data[0], ISEND, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Ibsend(data[1], IBSEND, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Issend(data[2], ISSEND, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[2]);
        MPI_Irsend(data[3], IRSEND, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 4; i++) EXPECT(requests[i] == MPI_REQUEST_NULL);
        MPI_Barrier(MPI_COMM_WORLD);
        void *back;
        MPI_Buffer_detach(&back, &done);
    } else if (rank == 1) {
        for (int i = 0; i < 4; i++)
            MPI_Irecv(data[i], ROOM, MPI_BYTE, i % 2 ? 0 : MPI_ANY_SOURCE, i + 1, MPI_COMM_WORLD, &requests[i]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Wait(&requests[3], MPI_STATUS_IGNORE);
        EXPECT(requests[3] == MPI_REQUEST_NULL);
        MPI_Waitany(2, requests + 1, &index, &statuses[0]);
        int bytes = index == 0 ? IBSEND : ISSEND;
        expect_status(&statuses[0], 0, index + 2, bytes);
        MPI_Waitall(1, requests, statuses);
        expect_status(&statuses[0], 0, 1, ISEND);
        MPI_Waitsome(4, requests, &done, indices, MPI_STATUSES_IGNORE);
        EXPECT(done == 1 && indices[0] == 2 - index);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
