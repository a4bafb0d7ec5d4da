/* Children of an MPI process that run its handlers of exit, that do not, that become another program: none is a rank,
 * and none disturbs the counters or the segment of the parent.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char out[400], in[400];

static void wait_for(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "a child ended with %d\n", status);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Allreduce(out, in, 337, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    pid_t child = fork();
    if (child == 0) {
        exit(0);
    }
    wait_for(child);
    child = fork();
    if (child == 0) {
        _exit(0);
    }
    wait_for(child);
    child = fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    wait_for(child);
    if (system("true") != 0) {
        return 1;
    }
    MPI_Allreduce(out, in, 347, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
