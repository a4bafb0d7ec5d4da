/* MPI_Comm_create_group in two threads of rank 0 at once, with the groups {0, 1} and {0, 2}, 300 times each; ranks 1 and 2
 * have one thread.
 * Right: no two communicators have one name; on each, either 100 or 200 bytes were broadcast, by its group. */
#include "threads.h"

static MPI_Group world;

static void in_round(int thread, int round) {
    MPI_Comm comm;
    MPI_Group group;
    int ranks[2] = {0, thread + 1};
    (void)round;
    MPI_Group_incl(world, 2, ranks, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, thread, &comm);
    use(comm, thread);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    if (rank == 0) run_threads();
    else for (int round = 0; round < ROUNDS; round++) in_round(rank - 1, round);
    MPI_Group_free(&world);
    end();
    return 0;
}
