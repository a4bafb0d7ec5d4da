/* MPI_Intercomm_create between ranks 0, 1 and 2, 3 in two threads of each at once, 100 times, with the same tag: each thread has a
 * local and a peer communicator of its own (MPI 4.1, 7.6.2: the peer communicator distinguishes the calls), and the
 * groups are the same.
 * Right: either the names belong together, and on each communicator all ranks sent 100 bytes or all 200; or the profile says
 * that they do not. */
/* Ranks that wait in two threads each for others that lack a core need long for a round. */
#define ROUNDS 100
#include "threads.h"

static MPI_Comm local[2], peers[2];

static void in_round(int thread, int round) {
    static char sent[2][200], received[2][200];
    MPI_Comm comm;
    int bytes = 100 * (thread + 1);
    (void)round;
    MPI_Intercomm_create(local[thread], 0, peers[thread], rank < 2 ? 2 : 0, 7, &comm);
    MPI_Sendrecv(sent[thread], bytes, MPI_BYTE, rank % 2, 0, received[thread], bytes, MPI_BYTE, rank % 2, 0, comm,
                 MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (int i = 0; i < 2; i++) MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &local[i]);
    for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &peers[i]);
    run_threads();
    for (int i = 0; i < 2; i++) MPI_Comm_free(&local[i]);
    for (int i = 0; i < 2; i++) MPI_Comm_free(&peers[i]);
    end();
    return 0;
}
