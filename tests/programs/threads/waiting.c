/* Three threads of rank 0 wait for a message at the same time, each for as long as rank 1 sleeps: together they are in MPI for longer than
 * the rank runs. */
#include "program.h"
#include <pthread.h>
#include <unistd.h>

enum { THREADS = 3 };

static void *receive(void *number) {
    int tag = *(int *)number;
    char in[101];
    MPI_Send(&tag, 1, MPI_INT, 1, tag, MPI_COMM_WORLD);
    MPI_Recv(in, sizeof in, MPI_BYTE, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    EXPECT(provided == MPI_THREAD_MULTIPLE && size == 2);
    MPI_Barrier(MPI_COMM_WORLD);
    int tags[THREADS];
    if (rank == 0) {
        pthread_t threads[THREADS];
        for (int at = 0; at < THREADS; at++) {
            tags[at] = at;
            EXPECT(pthread_create(&threads[at], NULL, receive, &tags[at]) == 0);
        }
        for (int at = 0; at < THREADS; at++) EXPECT(pthread_join(threads[at], NULL) == 0);
    } else {
        char out[101] = {0};
        for (int at = 0; at < THREADS; at++)
            MPI_Recv(&tags[at], 1, MPI_INT, 0, at, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        usleep(300000);
        for (int at = 0; at < THREADS; at++) MPI_Send(out, sizeof out, MPI_BYTE, 0, at, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
