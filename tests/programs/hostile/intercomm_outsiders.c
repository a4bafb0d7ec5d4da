/* MPI_Intercomm_create between a group with a spawned process and one without: parent 0 and the child on one side,
 * parent 1 on the other. Needs an MPI that can spawn.
 * Right: "parent 0: remote size 1, sum 1", "parent 1: remote size 2, sum 2", "child 0: remote size 1, sum 1". */
#include "common.h"

int main(int argc, char **argv) {
    MPI_Comm parent, inter, all, mine, between;
    int rank, me, remote, one = 1, sum = 0;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    int is_child = parent != MPI_COMM_NULL;
    if (is_child) inter = parent;
    else MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(inter, is_child, &all); /* 0 and 1: parents, 2: the child */
    MPI_Comm_rank(all, &me);
    MPI_Comm_split(all, me == 1, me, &mine);
    MPI_Intercomm_create(mine, 0, all, me == 1 ? 0 : 1, 7, &between);
    MPI_Comm_remote_size(between, &remote);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, between);
    printf("%s %d: remote size %d, sum %d\n", is_child ? "child" : "parent", rank, remote, sum);
    fflush(stdout);
    MPI_Comm_free(&between);
    MPI_Comm_free(&mine);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&inter);
    MPI_Finalize();
    return 0;
}
