/* Threads that communicate at the same time, each with its peer's thread of the same number: on a communicator of
 * their own, and on W with a tag of their own. */
#include "threads.h"

enum { THREADS = 4, ROUNDS = 500, ROOM = 20011 };
static MPI_Comm comms[THREADS];

static void *work(void *argument) {
    int number = *(int *)argument, peer = size - 1 - rank;
    char *in = malloc(ROOM), *out = calloc(1, ROOM);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request requests[4];
        MPI_Status statuses[4];
        MPI_Irecv(in, ROOM / 2, MPI_BYTE, peer, number, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(in + ROOM / 2, ROOM / 2, MPI_BYTE, peer, 0, comms[number], &requests[1]);
        MPI_Isend(out, 101 + number, MPI_BYTE, peer, number, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(out, 8009 + number, MPI_BYTE, peer, 0, comms[number], &requests[3]);
        MPI_Waitall(4, requests, i % 2 ? statuses : MPI_STATUSES_IGNORE);
        if (i % 2) expect_status(&statuses[0], peer, number, 101 + number);
        if (i % 2) expect_status(&statuses[1], peer, 0, 8009 + number);
        MPI_Sendrecv(out, 211 + number, MPI_BYTE, peer, 10 + number, in, ROOM, MPI_BYTE, peer, 10 + number,
                     MPI_COMM_WORLD, &statuses[0]);
        expect_status(&statuses[0], peer, 10 + number, 211 + number);
    }
    free(in);
    free(out);
    return NULL;
}

int main(int argc, char **argv) {
    begin_with_threads(&argc, &argv);
    run_threads(THREADS, work, MPI_COMM_WORLD, comms);
    MPI_Finalize();
    return 0;
}
