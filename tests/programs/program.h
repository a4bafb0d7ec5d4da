/* Begin of a program, and checks of what MPI returns to it, so that a profiler that changes a status or a return code is
 * detected. */
#pragma once
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the run with an error if `claim` does not hold. */
#define EXPECT(claim)                                                                                             \
    do {                                                                                                          \
        if (!(claim)) {                                                                                           \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim);                                   \
            MPI_Abort(MPI_COMM_WORLD, 9);                                                                         \
        }                                                                                                         \
    } while (0)

static int rank, size;

static inline void begin(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

/* The status of a message of `bytes` bytes. */
static inline void expect_status(const MPI_Status *status, int source, int tag, int bytes) {
    int count = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    EXPECT(status->MPI_SOURCE == source);
    EXPECT(status->MPI_TAG == tag);
    EXPECT(count == bytes);
}

/* The empty status (MPI 4.1, 3.7.3). */
static inline void expect_empty(const MPI_Status *status) {
    int count = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    EXPECT(status->MPI_SOURCE == MPI_ANY_SOURCE);
    EXPECT(status->MPI_TAG == MPI_ANY_TAG);
    EXPECT(count == 0);
}
