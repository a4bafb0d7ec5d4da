/* Polls that repeat, in all ways in which the next one may be another call than the last: other requests in the same variable, with
 * the same handle, on another communicator, in another region, cancelled, while recording is off. Rank 0 polls, and keeps books
 * of its calls by operation, communicator and region; rank 1 sends on request. */
#define _GNU_SOURCE
#include <mpi.h>
#include <mpisee.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TEST, TESTANY, TESTALL, TESTSOME, IPROBE, OPERATIONS };
enum { WORLD, TWIN, COMMS };
enum { OUTSIDE, INSIDE, REGIONS };
enum { MANY = 8, GO = 1, DATA = 2, ROUNDS = 40 };

static const char *const names[] = {"MPI_Test", "MPI_Testany", "MPI_Testall", "MPI_Testsome", "MPI_Iprobe"};
static long books[OPERATIONS][COMMS][REGIONS];
static MPI_Comm comms[COMMS];
static int region, counted = 1;

static void note(int operation, int comm) {
    if (counted) books[operation][comm][region]++;
}

static void enter(int to) {
    if (to) mpisee_region_begin("inside");
    else mpisee_region_end();
    region = to;
}

/* Has rank 1 send one message of `bytes` bytes. */
static void go(int comm, int bytes) { MPI_Send((int[]){comm, bytes}, 2, MPI_INT, 1, GO, MPI_COMM_WORLD); }

/* One place for all: requests and communicators change behind it. */
static int poll(int operation, int comm, int count, MPI_Request *requests) {
    int flag = 0, index, indices[MANY];
    note(operation, comm);
    switch (operation) {
    case TEST: MPI_Test(requests, &flag, MPI_STATUS_IGNORE); break;
    case TESTANY: MPI_Testany(count, requests, &index, &flag, MPI_STATUS_IGNORE); break;
    case TESTALL: MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE); break;
    case TESTSOME: MPI_Testsome(count, requests, &flag, indices, MPI_STATUSES_IGNORE); break;
    default: MPI_Iprobe(1, DATA, comms[comm], &flag, MPI_STATUS_IGNORE); break;
    }
    return flag;
}

/* Some in vain, in and out of a region, with recording switched off in between, and those until the message has come. */
static void poll_all(int operation, int comm, int count, MPI_Request *requests, int bytes) {
    for (int at = 0; at < 300; at++) {
        if (at == 100) enter(INSIDE);
        if (at == 200) enter(OUTSIDE);
        if (at == 140) MPI_Pcontrol(0);
        counted = at < 140 || at >= 160;
        if (at == 160) MPI_Pcontrol(1);
        if (poll(operation, comm, count, requests)) exit(3);
    }
    go(comm, bytes);
    while (!poll(operation, comm, count, requests)) {
    }
}

static void one(int comm, int round) {
    static char data[1 << 16];
    static MPI_Request request;
    int bytes = 1000 + 10 * round + comm;
    MPI_Irecv(data, sizeof data, MPI_CHAR, 1, DATA, comms[comm], &request);
    poll_all(TEST, comm, 1, &request, bytes);
    /* The next one has the same handle in the same variable, and another call completes it. */
    MPI_Irecv(data, sizeof data, MPI_CHAR, 1, DATA, comms[!comm], &request);
    for (int at = 0; at < 50; at++)
        if (poll(TEST, !comm, 1, &request)) exit(4);
    go(!comm, 2000 + round);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Irecv(data, sizeof data, MPI_CHAR, 1, DATA, comms[comm], &request);
    for (int at = 0; at < 70; at++)
        if (poll(TEST, comm, 1, &request)) exit(5);
    MPI_Cancel(&request);
    while (!poll(TEST, comm, 1, &request)) {
    }
}

static void several(int operation, int comm, int round) {
    static char data[MANY][4000];
    static MPI_Request requests[MANY];
    int got = 0;
    for (int at = 0; at < MANY; at++)
        MPI_Irecv(data[at], sizeof data[at], MPI_CHAR, 1, DATA, comms[comm], &requests[at]);
    poll_all(operation, comm, MANY, requests, 100 + round);
    if (operation == TESTALL) return;
    for (int at = 0; at < MANY; at++) got += requests[at] == MPI_REQUEST_NULL;
    while (got < MANY) got += poll(operation, comm, MANY, requests);
}

int main(int argc, char **argv) {
    int rank, work[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    comms[WORLD] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[TWIN]);
    if (rank == 1) {
        static char data[1 << 16];
        while (MPI_Recv(work, 2, MPI_INT, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE), work[0] >= 0) {
            int times = work[1] < 1000 ? MANY : 1;
            usleep(300);
            while (times--) MPI_Send(data, work[1], MPI_CHAR, 0, DATA, comms[work[0]]);
        }
    } else {
        for (int round = 0; round < ROUNDS; round++) {
            int comm = round % COMMS;
            one(comm, round);
            for (int operation = TESTANY; operation <= TESTSOME; operation++) several(operation, comm, round);
            poll_all(IPROBE, comm, 0, NULL, 3000 + round);
            char data[4000];
            MPI_Recv(data, sizeof data, MPI_CHAR, 1, DATA, comms[comm], MPI_STATUS_IGNORE);
        }
        go(-1, 0);
        for (int operation = 0; operation < OPERATIONS; operation++)
            for (int comm = 0; comm < COMMS; comm++)
                for (int at = 0; at < REGIONS; at++)
                    printf("%s %s %s %ld\n", names[operation], comm ? "W_d1" : "W", at ? "inside" : "-", books[operation][comm][at]);
    }
    MPI_Comm_free(&comms[TWIN]);
    MPI_Finalize();
    return 0;
}
