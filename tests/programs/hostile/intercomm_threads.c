/* MPI_Intercomm_create between ranks 0 and 1 in two threads of both at once, 300 times each; each thread has a local
 * and a peer communicator of its own, and the groups are the same.
 * Right: the names are equal on both sides and no two communicators share one: on each, both sides sent 100 bytes or
 * both 200. */
#include "threads.h"

static MPI_Comm local[2], peers[2];

static void in_round(int thread, int round) {
    static char sent[2][200], received[2][200];
    MPI_Comm comm;
    int bytes = 100 * (thread + 1);
    (void)round;
    MPI_Intercomm_create(local[thread], 0, peers[thread], 1 - rank, 10 + thread, &comm);
    MPI_Sendrecv(sent[thread], bytes, MPI_BYTE, 0, 0, received[thread], bytes, MPI_BYTE, 0, 0, comm,
                 MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_SELF, &local[i]);
    for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &peers[i]);
    run_threads();
    for (int i = 0; i < 2; i++) MPI_Comm_free(&local[i]);
    for (int i = 0; i < 2; i++) MPI_Comm_free(&peers[i]);
    end();
    return 0;
}
