/* Ten thousand receives and as many sends open at once, on two communicators; completed from the last to the first,
 * in pieces, and then all over again. */
#include "program.h"

enum { OPEN = 10000, PIECE = 100, ROUNDS = 2 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static MPI_Request receives[OPEN], sends[OPEN];
    static MPI_Status statuses[PIECE];
    static char in[OPEN][16], out[16];
    MPI_Comm comms[2] = {MPI_COMM_WORLD};
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    int peer = size - 1 - rank;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < OPEN; i++)
            MPI_Irecv(in[i], 16, MPI_BYTE, peer, 0, comms[i % 2], &receives[i]);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < OPEN; i++)
            MPI_Isend(out, 1 + i % 13, MPI_BYTE, peer, 0, comms[i % 2], &sends[i]);
        for (int first = OPEN - PIECE; first >= 0; first -= PIECE) {
            MPI_Waitall(PIECE, &sends[first], MPI_STATUSES_IGNORE);
            MPI_Waitall(PIECE, &receives[first], statuses);
            for (int i = 0; i < PIECE; i++) expect_status(&statuses[i], peer, 0, 1 + (first + i) % 13);
        }
    }
    MPI_Comm_free(&comms[1]);
    MPI_Finalize();
    return 0;
}
