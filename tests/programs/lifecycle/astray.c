/* Stays where it is until there is a file "go", on 3 ranks: 0 in a barrier, 1 in a loop of short calls, 2 in no call, with which it has begun
 * after a barrier. */
#include "meet.h"

__attribute__((noinline)) static void poll_for_message(void) {
    int got = 0, done = 0;
    MPI_Request request;
    MPI_Irecv(&got, 1, MPI_INT, 2, 77, MPI_COMM_WORLD, &request);
    while (!done) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE); /* poll_for_message calls */
    }
    EXPECT(got == 78);
}

int main(int argc, char **argv) {
    int sent = 78;
    begin(&argc, &argv);
    EXPECT(size == 3);
    MPI_Barrier(MPI_COMM_WORLD);
    arrive(rank);
    if (rank == 1) poll_for_message();
    if (rank == 2) {
        while (access("go", F_OK) != 0) usleep(1000);
        MPI_Send(&sent, 1, MPI_INT, 1, 77, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* main calls */
    MPI_Finalize();
    return 0;
}
