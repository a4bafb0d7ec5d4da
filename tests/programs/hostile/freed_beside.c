/* One thread starts nothing and frees its requests, while another receives: MPI gives the handle of a freed request to the
 * next one at once.
 * Right: each of the 100000 receives is counted, and nothing is not seen. */
#include "common.h"
#include <pthread.h>

enum { MESSAGES = 100000 };

static void *frees(void *unused) {
    int out = 1;
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Request request;
        MPI_Send_init(&out, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &request);
        MPI_Request_free(&request);
    }
    return unused;
}

static void *receives(void *comm) {
    int in, out = 1;
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Request request;
        MPI_Irecv(&in, 1, MPI_INT, 0, 1, *(MPI_Comm *)comm, &request);
        MPI_Send(&out, 1, MPI_INT, 0, 1, *(MPI_Comm *)comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return comm;
}

int main(int argc, char **argv) {
    MPI_Comm copy;
    pthread_t threads[2];
    int provided;
    watchdog();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_dup(MPI_COMM_SELF, &copy);
    pthread_create(&threads[0], NULL, frees, NULL);
    pthread_create(&threads[1], NULL, receives, &copy);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    MPI_Comm_free(&copy);
    ok(0);
    MPI_Finalize();
    return 0;
}
