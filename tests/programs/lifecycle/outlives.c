/* A rank dies, and the others go on without it. The argument says which; a rank that is not there lets all live. */
#include "program.h"
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif
#include <signal.h>
#include <unistd.h>

/* MPI_Finalize of Open MPI 5.0 sometimes waits for the dead. */
static void leave(int signal) {
    (void)signal;
    _exit(0);
}

int main(int argc, char **argv) {
    MPI_Comm alive, copy;
    MPI_Group failed;
    MPI_Request request;
    int alone = 1, sum = 0, flag, dead = -1;
    begin(&argc, &argv);
    EXPECT(argc == 2);
    int victim = atoi(argv[1]), survivors = victim < size ? size - 1 : size;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Allreduce(&alone, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == victim) raise(SIGKILL);
    int failure = MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS;
    EXPECT(victim < size || !failure);
    /* Operations that need dead ranks fail, and nobody waits for them. */
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    EXPECT((code == MPI_SUCCESS) == (victim >= size));
    if (code == MPI_SUCCESS) MPI_Comm_free(&copy);
    if (failure) MPIX_Comm_revoke(MPI_COMM_WORLD);
    EXPECT(MPIX_Comm_shrink(MPI_COMM_WORLD, &alive) == MPI_SUCCESS);
    MPIX_Comm_failure_ack(MPI_COMM_WORLD);
    MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &failed);
    MPI_Group_size(failed, &dead);
    EXPECT(dead == size - survivors);
    MPI_Group_free(&failed);
    flag = rank != 1;
    EXPECT(MPIX_Comm_agree(alive, &flag) == MPI_SUCCESS && flag == 0);
    flag = 1;
    EXPECT(MPIX_Comm_iagree(alive, &flag, &request) == MPI_SUCCESS);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT(flag == 1);
    MPI_Allreduce(&alone, &sum, 1, MPI_INT, MPI_SUM, alive);
    EXPECT(sum == survivors);
    MPI_Comm_dup(alive, &copy);
    MPI_Barrier(copy);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&alive);
    /* A second one has a name of its own. */
    MPIX_Comm_shrink(MPI_COMM_WORLD, &alive);
    MPI_Barrier(alive);
    MPI_Comm_free(&alive);
    puts("well");
    fflush(stdout);
    signal(SIGALRM, leave);
    alarm(5);
    MPI_Finalize();
    return 0;
}
