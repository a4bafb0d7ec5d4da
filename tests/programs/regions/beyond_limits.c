/* Regions beyond what is kept: 2000 of one name, one in the other, as of a loop that never ends what it begins; names of
 * 9000 bytes that differ in the last; and one without a name. With the argument "dies" all ranks end by a signal. */
#include <mpi.h>
#include <mpisee.h>
#include <signal.h>
#include <string.h>

int main(int argc, char **argv) {
    static char name[9001];
    MPI_Init(&argc, &argv);
    for (char last = 'a'; last <= 'b'; last++) {
        memset(name, 'r', sizeof name - 2);
        name[sizeof name - 2] = last;
        mpisee_region_begin(name);
        MPI_Barrier(MPI_COMM_WORLD);
        mpisee_region_end();
    }
    mpisee_region_begin("");
    MPI_Barrier(MPI_COMM_WORLD);
    mpisee_region_end();
    for (int depth = 0; depth < 2000; depth++) {
        mpisee_region_begin("step");
        MPI_Barrier(MPI_COMM_SELF);
    }
    /* Unseen: what a rank has counted by then is complete on all of them. */
    PMPI_Barrier(MPI_COMM_WORLD);
    if (argc > 1 && !strcmp(argv[1], "dies")) raise(SIGKILL);
    MPI_Finalize();
    return 0;
}
