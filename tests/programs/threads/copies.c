/* Threads that start small sends at the same time, each on its own communicator, and copy the requests into an array
 * before they wait: the handle may be the same in all threads. */
#include "threads.h"

enum { THREADS = 4, ROUNDS = 500, AT_ONCE = 8, BYTES = 31 };
static MPI_Comm comms[THREADS];

static MPI_Request send(char *data, int bytes, MPI_Comm comm) {
    MPI_Request request;
    MPI_Isend(data, bytes, MPI_BYTE, 1, 0, comm, &request);
    return request;
}

static void *work(void *argument) {
    int number = *(int *)argument;
    char data[BYTES + THREADS] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request requests[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++) {
            if (rank == 0)
                requests[k] = send(data, BYTES + number, comms[number]);
            else
                MPI_Recv(data, sizeof data, MPI_BYTE, 0, 0, comms[number], MPI_STATUS_IGNORE);
        }
        if (rank == 0) MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
    }
    return NULL;
}

int main(int argc, char **argv) {
    begin_with_threads(&argc, &argv);
    run_threads(THREADS, work, MPI_COMM_WORLD, comms);
    MPI_Finalize();
    return 0;
}
