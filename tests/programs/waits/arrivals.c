/* Collective calls to which a known rank comes last: the k-th of LATE calls to rank k mod size. Rank 1 switches recording off
 * for OFF of them. Then MANY calls that nobody is late for, and others of which nothing is kept. With an argument it aborts
 * before those. */
#include "program.h"
#include <unistd.h>
#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define MPI_Bcast_init MPIX_Bcast_init
#endif

enum { LATE = 60, OFF_FROM = 20, OFF = 7, MANY = 400, LATE_US = 10000 };

static void come_late(void) {
    for (int k = 0; k < LATE; k++) {
        if (k == OFF_FROM && rank == 1) MPI_Pcontrol(0);
        if (k == OFF_FROM + OFF && rank == 1) MPI_Pcontrol(1);
        if (k % size == rank) usleep(LATE_US);
        int one = 1, all = 0;
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        EXPECT(all == size);
    }
}

/* In a communicator of the first and the last rank, the last one is the root. */
static void from_the_last(void) {
    MPI_Comm ends;
    MPI_Comm_split(MPI_COMM_WORLD, rank % (size - 1) == 0 ? 0 : MPI_UNDEFINED, 0, &ends);
    if (ends == MPI_COMM_NULL) return;
    char block[11] = {0};
    MPI_Bcast(block, 11, MPI_BYTE, 1, ends);
    MPI_Comm_free(&ends);
}

/* Three collectives and a message to itself, completed by one call; then one by its own. */
static void at_once(void) {
    int ones[3] = {1, 1, 1}, all[3] = {0}, out = 7, in = 0;
    MPI_Request requests[5];
    for (int k = 0; k < 3; k++)
        MPI_Iallreduce(&ones[k], &all[k], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[k]);
    MPI_Irecv(&in, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &requests[3]);
    MPI_Isend(&out, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &requests[4]);
    MPI_Waitall(5, requests, MPI_STATUSES_IGNORE);
    EXPECT(in == 7);
    for (int k = 0; k < 3; k++) EXPECT(all[k] == size);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

/* A persistent broadcast from rank 1. */
static void again(void) {
    int value = 7;
    MPI_Request request;
    MPI_Bcast_init(&value, 1, MPI_INT, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int k = 0; k < 3; k++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
}

/* To all others, but from the first to the last in the second of three calls. */
static void with_counts(void) {
    int to[16], from[16], places[16], out[16] = {0}, in[16];
    EXPECT(size <= 16);
    for (int call = 0; call < 3; call++) {
        for (int k = 0; k < size; k++) to[k] = from[k] = 1, places[k] = k;
        if (call == 1 && rank == 0) to[size - 1] = 0;
        if (call == 1 && rank == size - 1) from[0] = 0;
        to[rank] = from[rank] = 0;
        MPI_Alltoallv(out, to, places, MPI_INT, in, from, places, MPI_INT, MPI_COMM_WORLD);
    }
}

static void unkept(void) {
    MPI_Barrier(MPI_COMM_SELF);
    MPI_Comm ring, between, half;
    int dims[1] = {size}, periods[1] = {1}, to[2] = {0}, from[2];
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring);
    MPI_Neighbor_alltoall(to, 1, MPI_INT, from, 1, MPI_INT, ring);
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank > 0 ? 0 : 1, 3, &between);
    MPI_Barrier(between);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
    MPI_Comm_free(&ring);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    come_late();
    if (argc > 1) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    from_the_last();
    at_once();
    again();
    with_counts();
    for (int k = 0; k < MANY; k++) MPI_Barrier(MPI_COMM_WORLD);
    unkept();
    MPI_Finalize();
    return 0;
}
