// Time of MPI_Finalize in a program with some communicators: `finalize COMMUNICATORS [DIRECTORY]`.
//
// Each rank has the world and duplicates and halves of it, COMMUNICATORS in all, and makes five
// operations on each with its neighbours. Printed, by rank 0, are the median time of a barrier of
// this run and the time of MPI_Finalize; every rank writes into DIRECTORY how much memory it had at
// most before, and during, MPI_Finalize.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BARRIERS = 31, MOST = 1024 };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

// KiB, of a line of /proc/self/status.
static long kib(const char *field) {
    char line[256];
    long found = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, field, strlen(field)) == 0) found = strtol(line + strlen(field), NULL, 10);
    if (status) fclose(status);
    return found;
}

// From now on the most memory is that of now.
static void forget_peak(void) {
    int file = open("/proc/self/clear_refs", O_WRONLY);
    if (file >= 0) {
        if (write(file, "5", 1) < 0) perror("clear_refs");
        close(file);
    }
}

// Tells tools/overhead/messages.c, where it is preloaded, that a phase ends.
static void end_phase(void) {
    void (*next_phase)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "next_phase");
    if (next_phase) next_phase();
}

int main(int argc, char **argv) {
    static MPI_Comm comms[MOST];
    int wanted = argc > 1 ? atoi(argv[1]) : 100, rank, size;
    if (wanted < 1 || wanted > MOST) return 2;
    MPI_Init(&argc, &argv);
    end_phase();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    comms[0] = MPI_COMM_WORLD;
    for (int n = 1; n < wanted; n++) {
        if (n % 2)
            MPI_Comm_dup(MPI_COMM_WORLD, &comms[n]);
        else
            MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comms[n]);
    }
    end_phase();
    char out[512] = {0}, in[512];
    for (int n = 0; n < wanted; n++) {
        int own, of;
        MPI_Comm_rank(comms[n], &own);
        MPI_Comm_size(comms[n], &of);
        int right = (own + 1) % of, left = (own + of - 1) % of;
        MPI_Request requests[2];
        MPI_Irecv(in, sizeof in, MPI_BYTE, left, n, comms[n], &requests[0]);
        MPI_Isend(out, 64 + n, MPI_BYTE, right, n, comms[n], &requests[1]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Sendrecv(out, 8, MPI_BYTE, left, n, in, sizeof in, MPI_BYTE, right, n, comms[n], MPI_STATUS_IGNORE);
        if (n < 5) MPI_Barrier(comms[n]);
    }
    double times[BARRIERS];
    for (int n = 0; n < BARRIERS; n++) {
        double begin = now();
        MPI_Barrier(MPI_COMM_WORLD);
        times[n] = now() - begin;
    }
    qsort(times, BARRIERS, sizeof times[0], by_value);
    forget_peak();
    long before = kib("VmRSS:");
    MPI_Barrier(MPI_COMM_WORLD);
    end_phase();
    double begin = now();
    MPI_Finalize();
    double end = now();
    if (argc > 2) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%d", argv[2], rank);
        FILE *file = fopen(path, "w");
        if (file) {
            fprintf(file, "%ld %ld %.9f\n", before, kib("VmHWM:"), end - begin);
            fclose(file);
        }
    }
    if (rank == 0) printf("barrier %.9f finalize %.9f\n", times[BARRIERS / 2], end - begin);
    return 0;
}
