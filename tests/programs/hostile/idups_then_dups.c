/* Five MPI_Comm_idup of W on their way while W is copied three times by MPI_Comm_dup, with an MPI_Allreduce on each copy.
 * Open MPI 4.1 hangs here where more communicators or collective calls come in between.
 * Right: all ranks print "ok"; W_i1 to W_i5, W_d6 to W_d8 with one MPI_Allreduce each. */
#include "common.h"

enum { N = 5 };

int main(int argc, char **argv) {
    MPI_Comm copies[N], dup;
    MPI_Request requests[N];
    int rank, one = 1, sum = 0;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < N; i++) MPI_Comm_idup(MPI_COMM_WORLD, &copies[i], &requests[i]);
    for (int i = 0; i < 3; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &dup);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, dup);
        MPI_Comm_free(&dup);
    }
    MPI_Waitall(N, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < N; i++) MPI_Comm_free(&copies[i]);
    ok(rank);
    MPI_Finalize();
    return 0;
}
