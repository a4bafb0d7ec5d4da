/* A second thread calls MPI and ends soon, again and again; the first one goes on. Rank 0 prints how long these threads
 * lived at least and at most, and how long a region was open in which all of them did. */
#include "program.h"
#include "mpisee.h"
#include <pthread.h>
#include <unistd.h>

enum { HELPERS = 3 };

static double lived_s;

static void *help(void *argument) {
    static char data[733];
    MPI_Bcast(data, sizeof data, MPI_BYTE, 0, MPI_COMM_WORLD);
    double since = MPI_Wtime();
    usleep(30 * 1000);
    lived_s += MPI_Wtime() - since;
    return argument;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    EXPECT(provided == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    double around_s = 0;
    mpisee_region_begin("helped");
    for (int i = 0; i < HELPERS; i++) {
        pthread_t helper;
        double since = MPI_Wtime();
        EXPECT(pthread_create(&helper, NULL, help, NULL) == 0);
        pthread_join(helper, NULL);
        around_s += MPI_Wtime() - since;
        usleep(200 * 1000);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    mpisee_region_end();
    if (rank == 0) printf("helpers lived from %.9f to %.9f s\n", lived_s, around_s);
    MPI_Finalize();
    return 0;
}
