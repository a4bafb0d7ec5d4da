/* Threads that begin and end regions, name communicators and switch recording off and on while others communicate. */
#include "threads.h"
#include <mpisee.h>

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
    begin_with_threads(&argc, &argv);
    run_threads(THREADS, work, MPI_COMM_WORLD, comms);
    MPI_Finalize();
    return 0;
}
