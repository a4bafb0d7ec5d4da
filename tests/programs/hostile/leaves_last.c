/* Rank 1 calls PMPI_Finalize and, when rank 0 has returned from MPI_Finalize, ends by _exit, past every handler; rank 0 exits
 * when rank 1 has ended.
 * Right: both ranks print "ok"; the profile has rank 0 and says that rank 1 ended before. */
#include "common.h"
#include <fcntl.h>
#include <sys/stat.h>

/* Returns whether a process runs: one that has ended may stay until its parent has waited for it. */
static int runs(long process) {
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    FILE *file = fopen(path, "r");
    if (file == NULL) return 0;
    if (fscanf(file, "%*d %*s %c", &state) != 1) state = 'Z';
    fclose(file);
    return state != 'Z' && state != 'X';
}

int main(int argc, char **argv) {
    struct stat there;
    int rank;
    long other = 0;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) {
        long own = getpid();
        MPI_Send(&own, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD);
        ok(rank);
        PMPI_Finalize();
        while (stat("returned", &there)) usleep(1000);
        _exit(0);
    }
    MPI_Recv(&other, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ok(rank);
    MPI_Finalize();
    close(open("returned", O_CREAT | O_WRONLY, 0600));
    while (runs(other)) usleep(1000);
    return 0;
}
