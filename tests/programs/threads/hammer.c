/* 8 threads of 2 processes that call all kinds of functions at the same time: on W and a duplicate that they share, on
 * a communicator of their own, and on ones that they create from it and free. Each starts requests that the next
 * thread completes. Sizes tell the thread. */
#include "threads.h"

enum { THREADS = 8, ROUNDS = 100, NEW_EVERY = 25, ROOM = 20011 };

/* Where a thread leaves two requests for the next one. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int full;
    MPI_Request requests[2];
    char in[ROOM], out[ROOM];
} Mailbox;

static MPI_Comm common, own[THREADS];
static Mailbox boxes[THREADS];

static void post(int number, int peer) {
    Mailbox *box = &boxes[number];
    pthread_mutex_lock(&box->lock);
    while (box->full) pthread_cond_wait(&box->changed, &box->lock);
    MPI_Irecv(box->in, ROOM, MPI_BYTE, peer, number, common, &box->requests[0]);
    MPI_Isend(box->out, 3001 + number, MPI_BYTE, peer, number, common, &box->requests[1]);
    box->full = 1;
    pthread_cond_broadcast(&box->changed);
    pthread_mutex_unlock(&box->lock);
}

static void fetch(int number, int peer) {
    Mailbox *box = &boxes[number];
    MPI_Status statuses[2];
    pthread_mutex_lock(&box->lock);
    while (!box->full) pthread_cond_wait(&box->changed, &box->lock);
    MPI_Waitall(2, box->requests, statuses);
    expect_status(&statuses[0], peer, number, 3001 + number);
    box->full = 0;
    pthread_cond_broadcast(&box->changed);
    pthread_mutex_unlock(&box->lock);
}

static void *work(void *argument) {
    int number = *(int *)argument, peer = 1 - rank, before = (number + THREADS - 1) % THREADS;
    char *in = malloc(ROOM), *out = calloc(1, ROOM);
    int mine[4] = {1, 1, 1, 1}, sum[4];
    MPI_Status status;
    MPI_Message message;
    MPI_Request persistent[2], probed;
    MPI_Recv_init(in, ROOM, MPI_BYTE, peer, 20 + number, MPI_COMM_WORLD, &persistent[0]);
    MPI_Send_init(out, 409 + number, MPI_BYTE, peer, 20 + number, MPI_COMM_WORLD, &persistent[1]);
    for (int i = 0; i < ROUNDS; i++) {
        post(number, peer);
        MPI_Sendrecv(out, 1009 + number, MPI_BYTE, peer, number, in, ROOM, MPI_BYTE, peer, number, MPI_COMM_WORLD,
                     &status);
        expect_status(&status, peer, number, 1009 + number);
        MPI_Allreduce(mine, sum, 4, MPI_INT, MPI_SUM, own[number]);
        EXPECT(sum[0] == 2 && sum[3] == 2);
        MPI_Startall(2, persistent);
        MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
        MPI_Isend(out, 211 + number, MPI_BYTE, peer, 5, own[number], &probed);
        MPI_Mprobe(peer, 5, own[number], &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(in, ROOM, MPI_BYTE, &message, &status);
        expect_status(&status, peer, 5, 211 + number);
        MPI_Wait(&probed, MPI_STATUS_IGNORE);
        if (i % NEW_EVERY == 0) {
            MPI_Comm passing;
            MPI_Comm_dup(own[number], &passing);
            MPI_Bcast(out, 601 + number, MPI_BYTE, 0, passing);
            MPI_Comm_free(&passing);
        }
        fetch(before, peer);
    }
    MPI_Request_free(&persistent[0]);
    MPI_Request_free(&persistent[1]);
    free(in);
    free(out);
    return NULL;
}

int main(int argc, char **argv) {
    begin_with_threads(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &common);
    for (int i = 0; i < THREADS; i++) {
        pthread_mutex_init(&boxes[i].lock, NULL);
        pthread_cond_init(&boxes[i].changed, NULL);
    }
    run_threads(THREADS, work, common, own);
    MPI_Comm_free(&common);
    MPI_Finalize();
    return 0;
}
