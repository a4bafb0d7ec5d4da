/* Thousands of requests one after the other, whose handles the MPI library gives out again and again, on two
 * communicators in turn and with sizes that take different ways through the library. */
#include "program.h"

enum { ROUNDS = 4000 };
static const int bytes[] = {7, 1031, 70001};

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char in[80000], out[80000];
    MPI_Comm comms[2] = {MPI_COMM_WORLD};
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    int peer = size - 1 - rank;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request request[2];
        MPI_Irecv(in, sizeof in, MPI_BYTE, peer, 0, comms[i % 2], &request[i % 2]);
        MPI_Isend(out, bytes[i % 3], MPI_BYTE, peer, 0, comms[i % 2], &request[1 - i % 2]);
        MPI_Status status;
        MPI_Wait(&request[0], i % 2 == 0 ? &status : MPI_STATUS_IGNORE);
        if (i % 2 == 0) expect_status(&status, peer, 0, bytes[i % 3]);
        MPI_Wait(&request[1], MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&comms[1]);
    MPI_Finalize();
    return 0;
}
