/* Communicators and collectives for 4 ranks, of which some run without the profiler: each rank prints what it got. The
 * sums are of all ranks, so that a message of the profiler among those of the program would show. */
#define _GNU_SOURCE
#include "on_nodes.h"
#include "program.h"

static int sum_over(MPI_Comm comm, int number) {
    int sum = -1;
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, comm);
    return sum;
}

int main(int argc, char **argv) {
    static char out[9000], in[9000];
    begin(&argc, &argv);
    MPI_Comm half, copy, pair, copy_of_pair;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    int of_half = sum_over(half, 1 << rank);
    for (int time = 0; time < 3; time++) MPI_Bcast(out, 4001 + time, MPI_BYTE, 0, half);
    MPI_Request request;
    MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    int of_copy = sum_over(copy, 100 << rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
    MPI_Comm_dup(pair, &copy_of_pair);
    int of_pair = sum_over(copy_of_pair, 10000 << rank);
    /* Whatever comes is for the program. */
    MPI_Status status;
    MPI_Sendrecv(out, 1000 + rank, MPI_BYTE, (rank + 1) % size, rank, in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE,
                 MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    int last = (rank + size - 1) % size;
    expect_status(&status, last, last, 1000 + last);
    int of_all = sum_over(MPI_COMM_WORLD, 7 + rank);
    printf("rank %d: %d %d %d %d\n", rank, of_half, of_copy, of_pair, of_all);
    MPI_Comm_free(&copy_of_pair);
    MPI_Comm_free(&pair);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
