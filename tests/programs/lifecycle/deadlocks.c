/* Ranks that wait for each other, as the first argument says, until there is a file "go", by which they end without MPI_Finalize:
 * a thread that makes no call of MPI looks for it. Before that all ranks communicate well.
 *
 * ring       each receives from the next one
 * sends      each sends to the next one, and nobody receives
 * barrier    rank 0 receives from rank 1, and all others are in a barrier
 * requests   each waits for a receive that it posted and a send that it started
 * any        rank 0 receives from anybody, and all others from rank 0
 * itself     rank 0 receives from itself, others from rank 0
 * astray     rank 5 receives from rank 2, all others are in an Allreduce
 * exchange   each sends to the next one and receives another tag from the one before, in one call
 * tags       rank 0 sends to rank 1, which receives another tag from it; others receive from rank 0
 *
 * These only look so, and go on with "go":
 * threads    a ring, in which another thread of rank 0 sends the message that all others wait for
 * chain      each receives from the one before, and rank 0 computes
 * early      each has sent what the next one will receive, but rank 0 computes before it does */
#include "meet.h"
#include <pthread.h>

enum { LARGE = 1 << 22 };
static char out[LARGE], in[LARGE];

static int is(const char *mode, const char *name) { return strcmp(mode, name) == 0; }

static void await_go(void) {
    while (access("go", F_OK) != 0) usleep(1000);
}

static void *leave(void *unused) {
    await_go();
    _exit(0);
    return unused;
}

static void *send_late(void *unused) {
    await_go();
    MPI_Send(out, 8, MPI_BYTE, size - 1, 5, MPI_COMM_WORLD);
    return unused;
}

static void receive(int from, int tag, int bytes) {
    MPI_Recv(in, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* receive calls */
}

static void read_header(void) {
    receive(2, 5, 8); /* read_header calls */
}

static void hang(const char *mode, int next, int before) {
    MPI_Request requests[2];
    if (is(mode, "ring")) receive(next, 5, 8);
    if (is(mode, "sends")) MPI_Ssend(out, 8, MPI_BYTE, next, 5, MPI_COMM_WORLD);
    if (is(mode, "barrier") && rank == 0) receive(1, 5, 8);
    if (is(mode, "barrier")) MPI_Barrier(MPI_COMM_WORLD);
    if (is(mode, "requests")) {
        MPI_Irecv(in, 8, MPI_BYTE, next, 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, 8, MPI_BYTE, before, 6, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    if (is(mode, "any")) receive(rank == 0 ? MPI_ANY_SOURCE : 0, 5, 8);
    if (is(mode, "itself")) receive(0, 5, 8);
    if (is(mode, "astray") && rank == 5) read_header();
    if (is(mode, "astray")) MPI_Allreduce(out, in, 16, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD); /* hang calls */
    if (is(mode, "exchange"))
        MPI_Sendrecv(out, 8, MPI_BYTE, next, 5, in, 8, MPI_BYTE, before, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (is(mode, "tags") && rank == 0) MPI_Ssend(out, 8, MPI_BYTE, 1, 6, MPI_COMM_WORLD);
    if (is(mode, "tags")) receive(0, 5, 8);
}

int main(int argc, char **argv) {
    EXPECT(argc == 2);
    const char *mode = argv[1];
    int provided, ends_well = is(mode, "threads") || is(mode, "chain") || is(mode, "early");
    MPI_Init_thread(&argc, &argv, is(mode, "threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int time = 0; time < 5; time++) {
        MPI_Sendrecv(out, 100, MPI_BYTE, next, 5, in, 100, MPI_BYTE, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(out, in, 16, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    }
    MPI_Request early;
    if (is(mode, "early")) MPI_Isend(out, LARGE, MPI_BYTE, next, 5, MPI_COMM_WORLD, &early);
    MPI_Barrier(MPI_COMM_WORLD);
    arrive(rank);
    pthread_t thread;
    if (!ends_well) {
        EXPECT(pthread_create(&thread, NULL, leave, NULL) == 0);
        hang(mode, next, before);
        return 1;
    }
    if (is(mode, "threads")) {
        int helps = rank == 0 && provided == MPI_THREAD_MULTIPLE;
        if (helps) EXPECT(pthread_create(&thread, NULL, send_late, NULL) == 0);
        if (provided == MPI_THREAD_MULTIPLE) receive(next, 5, 8);
        if (rank != 0 && provided == MPI_THREAD_MULTIPLE) MPI_Send(out, 8, MPI_BYTE, before, 5, MPI_COMM_WORLD);
        if (helps) pthread_join(thread, NULL);
    } else {
        if (rank == 0) await_go();
        if (rank != 0 || is(mode, "early")) receive(before, 5, is(mode, "early") ? LARGE : 8);
        if (is(mode, "early")) MPI_Wait(&early, MPI_STATUS_IGNORE);
        if (is(mode, "chain") && rank + 1 < size) MPI_Send(out, 8, MPI_BYTE, next, 5, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
