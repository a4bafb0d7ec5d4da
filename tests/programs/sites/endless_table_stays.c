/* Until there is a file "go", rank 0 is in no call, and each other rank in a Barrier below a function whose unwind table has an expression
 * that never ends. */
#include "../meet.h"
#include "by_table.h"

static void stay(void) {
    MPI_Barrier(MPI_COMM_WORLD); /* stay calls */
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    arrive(rank);
    if (rank == 0) {
        while (access("go", F_OK) != 0) usleep(1000);
    }
    by_table(stay);
    return MPI_Finalize();
}
