/* Hangs until there is a file "go": waits SIZE on 4 ranks. On a communicator of ranks 0-2, of which 0 and 1 enter the
 * sixth Allreduce; 2 is not in it, but waits for a message of 3, which is in no call. Before that every rank has made its
 * calls, with message sizes that depend on SIZE, so that runs differ. With a second argument rank 2 kills itself instead. */
#include "meet.h"
#include <signal.h>

/* Ends when the others are in the calls in which they stay. */
static void die(void) {
    await_arrivals(size);
    usleep(300000);
    raise(SIGKILL);
}

int main(int argc, char **argv) {
    static char out[9000], in[9000];
    EXPECT(argc == 2 || argc == 3);
    int base = atoi(argv[1]);
    begin(&argc, &argv);
    EXPECT(size == 4);
    MPI_Comm three;
    MPI_Comm_split(MPI_COMM_WORLD, rank < 3, rank, &three);
    MPI_Comm_set_name(three, "three");
    for (int time = 0; time < 5; time++) MPI_Allreduce(out, in, base + 31, MPI_BYTE, MPI_BOR, three);
    MPI_Barrier(MPI_COMM_WORLD);
    arrive(rank);
    if (rank == 2 && argc == 3) die();
    if (rank == 2) MPI_Recv(in, base, MPI_BYTE, 3, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 3) {
        while (access("go", F_OK) != 0) usleep(1000);
        MPI_Send(out, base, MPI_BYTE, 2, 4, MPI_COMM_WORLD);
    } else {
        MPI_Allreduce(out, in, base + 31, MPI_BYTE, MPI_BOR, three);
    }
    MPI_Comm_free(&three);
    MPI_Finalize();
    return 0;
}
