/* Tests that complete nothing, each kind a number of times of its own: 1 sends only after a message that says so, so all of
 * them are in vain. They are charged to the communicators of the requests that they ask about, among which is a send
 * that is complete already (its handle may be one that the MPI library shares between requests). */
#include "program.h"

enum { TEST = 1009, TESTALL = 211, TESTANY = 223, TESTSOME = 227, WITH_SEND = 229, ASKED = 1301, SENT = 13 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[2][ASKED], small[SENT];
    MPI_Comm dup, other;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (rank == 0) {
        MPI_Request requests[3];
        MPI_Status status;
        int flag, index, done, indices[3];
        MPI_Irecv(data[0], ASKED, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(data[1], ASKED, MPI_BYTE, 1, 1, dup, &requests[1]);
        for (int i = 0; i < TEST; i++) {
            MPI_Test(&requests[1], &flag, i % 2 ? &status : MPI_STATUS_IGNORE);
            EXPECT(!flag);
        }
        for (int i = 0; i < TESTALL; i++) {
            MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
            EXPECT(!flag);
        }
        for (int i = 0; i < TESTANY; i++) {
            MPI_Testany(2, requests, &index, &flag, &status);
            EXPECT(!flag && index == MPI_UNDEFINED);
        }
        for (int i = 0; i < TESTSOME; i++) {
            MPI_Testsome(2, requests, &done, indices, MPI_STATUSES_IGNORE);
            EXPECT(done == 0);
        }
        MPI_Isend(small, SENT, MPI_BYTE, 1, 2, other, &requests[2]);
        for (int i = 0; i < WITH_SEND; i++) {
            MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE);
            EXPECT(!flag);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Recv(small, SENT, MPI_BYTE, 0, 2, other, MPI_STATUS_IGNORE);
        MPI_Send(data[0], ASKED, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        MPI_Send(data[1], ASKED, MPI_BYTE, 0, 1, dup);
    }
    MPI_Comm_free(&dup);
    MPI_Comm_free(&other);
    MPI_Finalize();
    return 0;
}
