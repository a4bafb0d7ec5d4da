/* One thread starts requests and ends, another completes them: handles wander between threads, on W and on a
 * duplicate. 1 sends what 0 receives, of which the threads of 0 start the next batch while the last is completed. */
#include "program.h"
#include <pthread.h>

enum { BATCHES = 100, BATCH = 20, ROOM = 4001, BYTES = 503 };
static char data[2][BATCH][ROOM], out[ROOM];
static MPI_Request requests[2][BATCH];
static MPI_Comm dup;

static void *start(void *argument) {
    int half = *(int *)argument;
    for (int i = 0; i < BATCH; i++)
        MPI_Irecv(data[half][i], ROOM, MPI_BYTE, 1, i, i % 2 ? dup : MPI_COMM_WORLD, &requests[half][i]);
    return NULL;
}

static void *complete(void *argument) {
    int half = *(int *)argument;
    MPI_Status statuses[BATCH];
    MPI_Waitall(BATCH, requests[half], statuses);
    for (int i = 0; i < BATCH; i++) expect_status(&statuses[i], 1, i, BYTES + i);
    return NULL;
}

int main(int argc, char **argv) {
    int provided, halves[2] = {0, 1};
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    EXPECT(provided == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    pthread_t starter, completer;
    for (int batch = 0; rank == 0 && batch <= BATCHES; batch++) {
        if (batch < BATCHES) pthread_create(&starter, NULL, start, &halves[batch % 2]);
        if (batch > 0) pthread_create(&completer, NULL, complete, &halves[(batch - 1) % 2]);
        if (batch < BATCHES) pthread_join(starter, NULL);
        if (batch > 0) pthread_join(completer, NULL);
    }
    for (int batch = 0; rank == 1 && batch < BATCHES; batch++)
        for (int i = 0; i < BATCH; i++) MPI_Send(out, BYTES + i, MPI_BYTE, 0, i, i % 2 ? dup : MPI_COMM_WORLD);
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
