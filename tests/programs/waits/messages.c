/* Sends messages in every way. The k-th of a tag from one rank to another has 8 (k + 1) + tag bytes, so that a number
 * which is off shows. Ranks 0 and 2 send to rank 1, and all in a ring and in a chain. */
#include <mpi.h>
#include <stdlib.h>

enum { MESSAGES = 40, LONGEST = 8 * (MESSAGES + 1) + 16, BATCH = 4 };

static char out[4][LONGEST], in[4][LONGEST];
static int rank;

static int length(int k, int tag) { return 8 * (k + 1) + tag; }

/* Recording is off on rank 0 for messages 10 to 14, and on rank 1 for 20 to 24. */
static void switch_recording(int k) {
    if (rank < 2) {
        const int first = 10 * (rank + 1);
        MPI_Pcontrol(k < first || k >= first + 5);
    }
}

static void blocking(int tag) {
    for (int k = 0; k < MESSAGES; k++) {
        switch_recording(k);
        if (rank != 1) {
            MPI_Send(out[0], length(k, tag), MPI_BYTE, 1, tag, MPI_COMM_WORLD);
        } else {
            MPI_Recv(in[0], LONGEST, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(in[0], LONGEST, MPI_BYTE, 2, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

/* Two tags at a time, whose receives are posted in another order than the sends. */
static void nonblocking(int tag) {
    for (int k = 0; k < MESSAGES; k++) {
        MPI_Request requests[BATCH];
        switch_recording(k);
        if (rank != 1) {
            /* What is for no process is no message. */
            MPI_Irecv(in[0], LONGEST, MPI_BYTE, MPI_PROC_NULL, tag, MPI_COMM_WORLD, &requests[2]);
            MPI_Isend(out[0], length(k, tag), MPI_BYTE, 1, tag, MPI_COMM_WORLD, &requests[0]);
            MPI_Issend(out[1], length(k, tag + 1), MPI_BYTE, 1, tag + 1, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        } else {
            for (int at = 0; at < BATCH; at++) {
                MPI_Irecv(in[at], LONGEST, MPI_BYTE, at < 2 ? 2 : 0, tag + 1 - at % 2, MPI_COMM_WORLD, &requests[at]);
            }
            for (int at = 0, index; at < BATCH; at++) {
                MPI_Waitany(BATCH, requests, &index, MPI_STATUS_IGNORE);
            }
        }
    }
}

static void persistent(int tag) {
    MPI_Request requests[2];
    if (rank != 1) {
        MPI_Send_init(out[0], length(0, tag), MPI_BYTE, 1, tag, MPI_COMM_WORLD, &requests[0]);
    } else {
        MPI_Recv_init(in[0], LONGEST, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Recv_init(in[1], LONGEST, MPI_BYTE, 2, tag, MPI_COMM_WORLD, &requests[1]);
    }
    const int count = rank == 1 ? 2 : 1;
    for (int k = 0; k < MESSAGES; k++) {
        switch_recording(k);
        MPI_Startall(count, requests);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    }
    for (int at = 0; at < count; at++) {
        MPI_Request_free(&requests[at]);
    }
}

static void from_any(int tag) {
    for (int k = 0; k < MESSAGES; k++) {
        if (rank != 1) {
            MPI_Ssend(out[0], length(k, tag), MPI_BYTE, 1, tag, MPI_COMM_WORLD);
        } else {
            MPI_Recv(in[0], LONGEST, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(in[0], LONGEST, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

static void ring(int tag, int size) {
    for (int k = 0; k < MESSAGES; k++) {
        MPI_Sendrecv(out[0], length(k, tag), MPI_BYTE, (rank + 1) % size, tag, in[0], LONGEST, MPI_BYTE, (rank + size - 1) % size,
                     tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* As the ring, without the last link. */
static void chain(int tag, int size) {
    const int next = rank + 1 < size ? rank + 1 : MPI_PROC_NULL, last = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    for (int k = 0; k < MESSAGES; k++) {
        MPI_Sendrecv(out[0], length(k, tag), MPI_BYTE, next, tag, in[0], LONGEST, MPI_BYTE, last, tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
}

static void probed(int tag) {
    for (int k = 0; k < MESSAGES; k++) {
        if (rank != 1) {
            MPI_Send(out[0], length(k, tag), MPI_BYTE, 1, tag, MPI_COMM_WORLD);
            continue;
        }
        for (int at = 0; at < 2; at++) {
            MPI_Message message;
            MPI_Mprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            MPI_Mrecv(in[0], LONGEST, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        }
    }
}

static void freed(int tag) {
    for (int k = 0; k < MESSAGES; k++) {
        if (rank != 1) {
            MPI_Request request;
            MPI_Isend(out[0], length(k, tag), MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request);
            MPI_Request_free(&request);
        } else {
            MPI_Recv(in[0], LONGEST, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(in[0], LONGEST, MPI_BYTE, 2, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

/* In which order these take the messages of two ranks is not known. */
static void posted_for_any(MPI_Comm comm, int tag) {
    for (int k = 0; k < MESSAGES; k++) {
        if (rank != 1) {
            MPI_Send(out[0], length(k, tag), MPI_BYTE, 1, tag, comm);
        } else {
            MPI_Request requests[2];
            MPI_Irecv(in[0], LONGEST, MPI_BYTE, MPI_ANY_SOURCE, tag, comm, &requests[0]);
            MPI_Irecv(in[1], LONGEST, MPI_BYTE, MPI_ANY_SOURCE, tag, comm, &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
    }
}

int main(int argc, char **argv) {
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    blocking(1);
    nonblocking(2);
    persistent(4);
    from_any(5);
    /* Nobody sends with another tag while any is received. */
    MPI_Barrier(MPI_COMM_WORLD);
    ring(6, size);
    probed(7);
    freed(8);
    chain(10, size);
    MPI_Comm unordered;
    MPI_Comm_dup(MPI_COMM_WORLD, &unordered);
    posted_for_any(unordered, 9);
    MPI_Comm_free(&unordered);
    MPI_Finalize();
    return 0;
}
