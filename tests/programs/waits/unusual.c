/* Messages of which a careless count goes wrong, by the argument; the k-th of a stream has 8 (k + 1) bytes, so that it shows:
 *   startall  persistent requests on two communicators in turn are started by one call
 *   edges     a halo exchange with MPI_PROC_NULL at both ends
 *   cancel    a receive is posted and cancelled while recording is off
 *   handler   an error handler sends
 *   cut       a receive takes a message that is too long while recording is off
 *   wildcards some nonblocking receives name no source, others no tag
 * Right: the numbers of all streams, or the order of those with rank 0 at rank 1 (cancel, cut), or at rank 0 (handler),
 * or of those that a wildcard can take, is unknown. */
#include <mpi.h>
#include <string.h>

enum { MESSAGES = 20, REQUESTS = 24, LONGEST = 8 * (MESSAGES * REQUESTS + 1) };

static char out[REQUESTS][LONGEST], in[REQUESTS][LONGEST];
static int rank, size;

static int length(int k) { return 8 * (k + 1); }

static void exchange(void) {
    for (int k = 0; k < MESSAGES; k++) {
        if (rank == 0) MPI_Send(out[0], length(k), MPI_BYTE, 1, 3, MPI_COMM_WORLD);
        else if (rank == 1) MPI_Recv(in[0], LONGEST, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void startall(void) {
    MPI_Comm comms[2];
    MPI_Request requests[REQUESTS];
    for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    if (rank < 2) {
        for (int i = 0; i < REQUESTS; i++) {
            if (rank == 0) MPI_Send_init(out[i], length(i / 2), MPI_BYTE, 1, 3, comms[i % 2], &requests[i]);
            else MPI_Recv_init(in[i], LONGEST, MPI_BYTE, 0, 3, comms[i % 2], &requests[i]);
        }
        MPI_Startall(REQUESTS, requests);
        MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < REQUESTS; i++) MPI_Request_free(&requests[i]);
    }
    for (int i = 0; i < 2; i++) MPI_Comm_free(&comms[i]);
}

static void edges(void) {
    int below = rank > 0 ? rank - 1 : MPI_PROC_NULL, above = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    for (int k = 0; k < MESSAGES; k++) {
        MPI_Sendrecv(out[0], length(k), MPI_BYTE, above, 3, in[0], LONGEST, MPI_BYTE, below, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(out[0], length(k), MPI_BYTE, below, 4, in[0], LONGEST, MPI_BYTE, above, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void cancel(void) {
    if (rank == 1) {
        MPI_Request request;
        MPI_Pcontrol(0);
        MPI_Irecv(in[0], LONGEST, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Pcontrol(1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    exchange();
}

static void cut(void) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) MPI_Send(out[0], 64, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Pcontrol(0);
        MPI_Recv(in[0], 8, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Pcontrol(1);
    }
    exchange();
}

static void send_one(MPI_Comm *comm, int *code, ...) {
    (void)code;
    MPI_Send(out[0], 64, MPI_BYTE, 1, 3, *comm);
}

static void handler(void) {
    if (rank == 0) {
        MPI_Errhandler sends;
        MPI_Comm_create_errhandler(send_one, &sends);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, sends);
        MPI_Send(out[0], 8, MPI_BYTE, size + 7, 3, MPI_COMM_WORLD);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        MPI_Errhandler_free(&sends);
    }
    if (rank == 1) MPI_Recv(in[0], LONGEST, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    exchange();
}

/* Ranks 0 and 2 send to rank 1, which names the source of all tags but 5, and on a communicator of its own no tag of rank 2's. */
static void wildcards(void) {
    MPI_Comm own;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    for (int k = 0; k < MESSAGES; k++) {
        for (int tag = 4; tag <= 8; tag++) {
            MPI_Comm comm = tag < 8 ? MPI_COMM_WORLD : own;
            for (int from = 0; from <= 2; from += 2) {
                MPI_Request request = MPI_REQUEST_NULL;
                int source = tag == 5 ? MPI_ANY_SOURCE : from, wanted = tag == 8 && from == 2 ? MPI_ANY_TAG : tag;
                if (rank == 1) MPI_Irecv(in[0], LONGEST, MPI_BYTE, source, wanted, comm, &request);
                if (rank == from) MPI_Isend(out[0], length(k), MPI_BYTE, 1, tag, comm, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
        }
    }
    MPI_Comm_free(&own);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2) return 1;
    if (!strcmp(argv[1], "startall")) startall();
    if (!strcmp(argv[1], "edges")) edges();
    if (!strcmp(argv[1], "cancel")) cancel();
    if (!strcmp(argv[1], "cut")) cut();
    if (!strcmp(argv[1], "handler")) handler();
    if (!strcmp(argv[1], "wildcards")) wildcards();
    MPI_Finalize();
    return 0;
}
