/* Each rank goes to a folder of its own, as ensemble codes do; with "early" before MPI_Init. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int leave(int number) {
    char folder[64];
    snprintf(folder, sizeof folder, "replica%d", number);
    mkdir(folder, 0755);
    return chdir(folder);
}

int main(int argc, char **argv) {
    int early = argc > 1 && !strcmp(argv[1], "early"), rank, one = 1, sum;
    if (early && leave((int)getpid())) return 3;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!early && leave(rank)) return 3;
    for (int i = 0; i < 10; i++) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
