// Time and memory of a program that makes and frees communicators without end: `communicators
// CYCLES`.
//
// Each cycle is an MPI_Comm_split of the world, in which the last process gets none, and an
// MPI_Comm_free. Printed, by rank 0, are its memory after the first hundredth and at the end, in
// KiB, and the microseconds of a cycle.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long resident_kib(void) {
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmRSS:", 6) == 0) kib = atol(line + 6);
    if (status) fclose(status);
    return kib;
}

int main(int argc, char **argv) {
    int rank, size, cycles = argc > 1 ? atoi(argv[1]) : 1000000;
    if (cycles < 100) return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double begin = MPI_Wtime();
    for (int n = 1; n <= cycles; n++) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, rank == size - 1 ? MPI_UNDEFINED : rank % 2, size - rank, &comm);
        if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
        if (rank == 0 && n == cycles / 100) printf("KiB after %d\t%ld\n", n, resident_kib());
    }
    if (rank == 0) {
        double us = 1e6 * (MPI_Wtime() - begin) / cycles;
        printf("KiB after %d\t%ld\nmicroseconds of one\t%.3f\n", cycles, resident_kib(), us);
    }
    MPI_Finalize();
    return 0;
}
