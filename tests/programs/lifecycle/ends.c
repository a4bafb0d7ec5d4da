/* Ends without MPI_Finalize: ends HOW WHO SIZE. WHO is a rank, or -1 for all; the others wait for it in vain. By then
 * every rank has made its calls, with message sizes that depend on SIZE, so that runs differ. */
#include "meet.h"
#include <signal.h>
#include <unistd.h>

static void end(const char *how) {
    if (strcmp(how, "kill") == 0) raise(SIGKILL);
    if (strcmp(how, "term") == 0) raise(SIGTERM);
    if (strcmp(how, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 5);
    if (strcmp(how, "_exit") == 0) _exit(3);
    if (strcmp(how, "exit") == 0) exit(3);
    for (;;) pause();
}

int main(int argc, char **argv) {
    static char out[9000], in[9000];
    EXPECT(argc == 4);
    const char *how = argv[1];
    int who = atoi(argv[2]), base = atoi(argv[3]);
    begin(&argc, &argv);
    MPI_Allreduce(out, in, base + 13, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_set_name(half, "half");
    for (int time = 0; time < 3; time++) MPI_Bcast(out, base + 29, MPI_BYTE, 0, half);
    MPI_Request requests[2];
    MPI_Irecv(in, sizeof in, MPI_BYTE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, base + 100 + rank, MPI_BYTE, (rank + 1) % size, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (rank == who || who < 0) {
        MPI_Sendrecv(out, base + 7, MPI_BYTE, rank, 1, in, sizeof in, MPI_BYTE, rank, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    meet();
    if (rank == who || who < 0) end(how);
    MPI_Recv(in, sizeof in, MPI_BYTE, who, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 1;
}
