/* MPI_Comm_create_group of one group in two threads of both ranks at once, distinguished by the tag, 300 times each.
 * Right: the names are equal on both members and no two communicators share one: on each, both broadcast 100 bytes or
 * both 200. */
#include "threads.h"

static void in_round(int thread, int round) {
    MPI_Comm comm;
    MPI_Group group;
    (void)round;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 10 + thread, &comm);
    use(comm, thread);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    run_threads();
    end();
    return 0;
}
