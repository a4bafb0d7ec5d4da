/* Rank 1 clears its environment before MPI_Init and sets all variables again but LD_PRELOAD and those of the profiler;
 * after MPI_Init it clears the environment for good.
 * Right: both ranks print "ok"; the profile is complete and has one MPI_Barrier and one MPI_Comm_dup of each. */
#include "common.h"

extern char **environ;

static void clear_and_restore(void) {
    int n = 0;
    while (environ[n]) n++;
    char **copy = malloc(n * sizeof *copy);
    for (int i = 0; i < n; i++) copy[i] = strdup(environ[i]);
    clearenv();
    for (int i = 0; i < n; i++) {
        if (strncmp(copy[i], "MPISEE_", 7) != 0 && strncmp(copy[i], "LD_PRELOAD=", 11) != 0) putenv(copy[i]);
    }
}

int main(int argc, char **argv) {
    MPI_Comm dup;
    int rank;
    watchdog();
    if (launched_rank() == 1) clear_and_restore();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) clearenv();
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Barrier(dup);
    MPI_Comm_free(&dup);
    ok(rank);
    MPI_Finalize();
    return 0;
}
