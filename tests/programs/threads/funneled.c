/* Threads that do not call MPI beside the one that does. */
#include "program.h"
#include <pthread.h>

static void *compute(void *argument) {
    double *sum = argument;
    for (int i = 1; i < 1000000; i++) *sum += 1.0 / i;
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    EXPECT(provided >= MPI_THREAD_FUNNELED);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pthread_t threads[2];
    double sums[2] = {0};
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, compute, &sums[i]);
    static char data[907];
    for (int i = 0; i < 100; i++) {
        if (rank == 0)
            MPI_Send(data, sizeof data, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(data, sizeof data, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    MPI_Finalize();
    return 0;
}
