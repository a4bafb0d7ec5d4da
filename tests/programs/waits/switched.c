/* Rank 1 receives ARGV[1] messages from rank 0, and then as many from rank 2, each of which is late by ARGV[3] microseconds. While
 * recording is off, rank 0 alone sends it ARGV[2] more with the same tag. Each rank prints how long others waited for it, and it for
 * others, while recording was on, in seconds: from the begin of a receive to that of its send, which the message has. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, messages = atoi(argv[1]), unrecorded = atoi(argv[2]), us = atoi(argv[3]);
    double sent, waited[3] = {0};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int from = 0; from < 3; from += 2) {
        MPI_Barrier(MPI_COMM_WORLD);
        for (int message = 0; message < messages; message++) {
            if (rank == from) {
                usleep(us);
                sent = now();
                MPI_Send(&sent, 1, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD);
            } else if (rank == 1) {
                double begin = now();
                MPI_Recv(&sent, 1, MPI_DOUBLE, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                if (sent > begin) waited[from] += sent - begin;
            }
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(0);
    for (int message = 0; message < unrecorded; message++) {
        if (rank == 0) MPI_Send(&sent, 1, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD);
        if (rank == 1) MPI_Recv(&sent, 1, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(1);
    double all = waited[0] + waited[2], caused = 0;
    MPI_Bcast(waited, 3, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    if (rank != 1) caused = waited[rank];
    for (int turn = 0; turn < 3; turn++) {
        if (turn == rank) printf("%d %.9f %.9f\n", rank, caused, rank == 1 ? all : 0.0), fflush(stdout);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
