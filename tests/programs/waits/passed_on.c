/* Rank 2 of 4 sleeps before a call in which one rank or more wait for it, by the argument, and all meet in a barrier then:
 *   bcast     ranks pass on what the root sends
 *   scatter   the same
 *   fence     ranks 0 and 2 share a window
 *   split     ranks 0 and 2 make communicators
 *   wildcard  rank 0 receives from any source
 * Right: rank 2 is late. Of others that are, it is said that they may be late because they waited. */
#include <mpi.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 20, SLEEP_US = 50000, LATE = 2 };

int main(int argc, char **argv) {
    int rank, data[4] = {0}, own;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 2) return 1;
    MPI_Comm pair, more;
    MPI_Win window;
    /* One window alone: Open MPI 4.1 gives two of equal communicators the same file. */
    int has_window = !strcmp(argv[1], "fence") && rank % 2 == 0;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &pair);
    if (has_window) MPI_Win_create(data, sizeof data, 1, MPI_INFO_NULL, pair, &window);
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == LATE) usleep(SLEEP_US);
        if (!strcmp(argv[1], "bcast")) MPI_Bcast(data, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!strcmp(argv[1], "scatter")) MPI_Scatter(data, 1, MPI_INT, &own, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (has_window) MPI_Win_fence(0, window);
        if (!strcmp(argv[1], "split") && rank % 2 == 0) {
            MPI_Comm_split(pair, 0, rank, &more);
            MPI_Comm_free(&more);
        }
        if (!strcmp(argv[1], "wildcard") && rank == 0) {
            MPI_Request request;
            MPI_Irecv(&own, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        if (!strcmp(argv[1], "wildcard") && rank == LATE) MPI_Send(data, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (has_window) MPI_Win_free(&window);
    MPI_Comm_free(&pair);
    MPI_Finalize();
    return 0;
}
