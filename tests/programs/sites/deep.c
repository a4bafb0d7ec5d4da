/* Slow calls at the bottom of 40 and of 100 calls of one function. */
#include "../program.h"
#include <unistd.h>

enum { CALLS = 20 };

__attribute__((noinline, noclone)) static void down(int steps) {
    if (steps > 0) {
        down(steps - 1);
    } else {
        if (rank == 0) usleep(20 * 1000);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    __asm__ volatile("" ::: "memory"); /* so that no call is the last thing it does, and leaves no trace of it */
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (int call = 0; call < CALLS; call++) down(40);
    for (int call = 0; call < CALLS; call++) down(100);
    return MPI_Finalize();
}
