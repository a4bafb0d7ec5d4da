/* Rank 0 starts four receives from anyone with any tag, and nobody sends to them: no message of the profiler's may land
 * in one. With the argument "off" they are started while recording is switched off, else while it is on.
 * Right: both ranks print "through"; each has one MPI_Barrier, and rank 0 four MPI_Irecv that were started while on. */
#include "common.h"

int main(int argc, char **argv) {
    static char room[4][1 << 17];
    MPI_Request request;
    int rank;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (is(argc, argv, "off")) MPI_Pcontrol(0);
    for (int i = 0; rank == 0 && i < 4; i++)
        MPI_Irecv(room[i], sizeof room[i], MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    MPI_Pcontrol(1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    printf("rank %d through\n", rank);
    return 0;
}
