/* MPI_Comm_split in two threads of all ranks at once, each on a parent of its own, 300 times each; the fourth of them in
 * each ten gives every rank MPI_COMM_NULL.
 * Right: the children of W_d1 are W_d1_s1.0, W_d1_s2.0 and so on, without those of the rounds that gave none; 100 bytes
 * were broadcast on each; and 200 on those of W_d2. */
#include "threads.h"

static MPI_Comm parents[2];

static void in_round(int thread, int round) {
    MPI_Comm comm;
    int color = round % 10 == 3 ? MPI_UNDEFINED : 5;
    MPI_Comm_split(parents[thread], color, rank, &comm);
    if (comm == MPI_COMM_NULL) return;
    use(comm, thread);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &parents[i]);
    run_threads();
    for (int i = 0; i < 2; i++) MPI_Comm_free(&parents[i]);
    end();
    return 0;
}
