/* Stays where it is until there is a file "go", on 2 ranks: 0 in a barrier, 1 asleep in no call, below load_input. */
#include "meet.h"

static volatile int loads;

__attribute__((noinline)) static void load_input(void) {
    while (access("go", F_OK) != 0) {
        usleep(300000); /* load_input sleeps */
    }
    loads++;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(size == 2);
    MPI_Barrier(MPI_COMM_WORLD);
    arrive(rank);
    if (rank == 1) load_input(); /* main loads */
    MPI_Barrier(MPI_COMM_WORLD); /* main waits */
    MPI_Finalize();
    return loads == rank ? 0 : 1;
}
