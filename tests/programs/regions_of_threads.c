/* Threads that begin and end regions, name communicators and switch recording off and on while others communicate. */
#include "p2p.h"
#include <mpisee.h>
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 200 };
static MPI_Comm comms[THREADS];

static void *work(void *argument) {
    int number = *(int *)argument, one = 1, sum;
    char name[16];
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(name, sizeof name, "part %d", i % 7);
        mpisee_region_begin(name);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comms[number]);
        EXPECT(sum == size);
        MPI_Comm_set_name(comms[number], name);
        if (number == 0) MPI_Pcontrol(i % 2);
        mpisee_region_end();
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided, numbers[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    EXPECT(provided == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, work, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
    MPI_Finalize();
    return 0;
}
