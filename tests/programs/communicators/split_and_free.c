/* Splits MPI_COMM_WORLD, uses the halves and frees them, as often as the argument says: the handles come again and
 * again. With a second argument prints how much memory process 0 grew by, and the time.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long resident_kib(void) {
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kib = atol(line + 6);
        }
    }
    if (status) {
        fclose(status);
    }
    return kib;
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Comm half;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int cycles = argc > 1 ? atoi(argv[1]) : 0;
    long before = resident_kib();
    double begin = MPI_Wtime();
    for (int k = 0; k < cycles; k++) {
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, size - rank, &half);
        MPI_Barrier(half);
        MPI_Comm_free(&half);
    }
    if (argc > 2 && rank == 0) {
        printf("%d cycles in %.3f s, %ld KiB more\n", cycles, MPI_Wtime() - begin, resident_kib() - before);
    }
    MPI_Finalize();
    return 0;
}
