/* One thread makes all calls but those that begin and end MPI. */
#include "program.h"
#include <pthread.h>

static void *work(void *argument) {
    static char data[911];
    for (int i = 0; i < 50; i++) MPI_Bcast(data, sizeof data, MPI_BYTE, 0, MPI_COMM_WORLD);
    return argument;
}

int main(int argc, char **argv) {
    int provided;
    pthread_t worker;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    EXPECT(provided == MPI_THREAD_MULTIPLE);
    EXPECT(pthread_create(&worker, NULL, work, NULL) == 0);
    pthread_join(worker, NULL);
    MPI_Finalize();
    return 0;
}
