/* Regions in which some of the threads call MPI. */
#include "threads.h"
#include <mpisee.h>

enum { THREADS = 5, ROUNDS = 37 };
static MPI_Comm comms[THREADS];
static pthread_barrier_t together;

static void *work(void *argument) {
    int number = *(int *)argument, one = 1, sum;
    for (int part = 0; part < 3; part++) {
        /* All threads, the first alone, and in it the second. */
        const char *names[] = {"all", "first", "second"};
        if (number == 0) mpisee_region_begin(names[part]);
        pthread_barrier_wait(&together);
        for (int i = 0; i < ROUNDS && (part == 0 || number == part - 1); i++)
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comms[number]);
        pthread_barrier_wait(&together);
        if (number == 0 && part != 1) mpisee_region_end();
    }
    if (number == 0) mpisee_region_end();
    return NULL;
}

int main(int argc, char **argv) {
    begin_with_threads(&argc, &argv);
    pthread_barrier_init(&together, NULL, THREADS);
    run_threads(THREADS, work, MPI_COMM_WORLD, comms);
    mpisee_region_begin("silent");
    mpisee_region_end();
    MPI_Finalize();
    return 0;
}
