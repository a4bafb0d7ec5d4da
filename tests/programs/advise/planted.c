// Five things that a program should not do, each on a communicator of its own, for 4 processes. Work is sleep, so that
// cores do not matter; by how much it took longer is printed.
#include "work.h"
#include <mpi.h>

enum { TINY = 1500, ROUNDS = 16, BARRIERS = 24, LONG = 1 << 20 };

static char buffer[LONG];

// Reductions of 8 bytes, very many: for a second at least. Two processes have them, the others sleep: four that wait for
// each other on two cores would take any time.
static void tiny_allreduces(MPI_Comm comm, int rank) {
    if (comm == MPI_COMM_NULL) {
        rest(1.1);
        return;
    }
    double start = MPI_Wtime(), late = 0;
    for (int i = 0; i < TINY || !late; i++) {
        late = rank == 0 && MPI_Wtime() - start > 1;
        MPI_Allreduce(MPI_IN_PLACE, &late, 1, MPI_DOUBLE, MPI_MAX, comm);
    }
}

// One process works longer than the others before each barrier.
static void late_member(MPI_Comm comm, int rank) {
    for (int i = 0; i < BARRIERS; i++) {
        rest(rank == 2 ? 0.1 : 1e-3);
        MPI_Barrier(comm);
    }
}

// Communicators that are made again and again, and stay.
static void creation(MPI_Comm comm) {
    for (int i = 0; i < 40; i++) {
        MPI_Comm same;
        MPI_Comm_dup(comm, &same);
    }
}

// Each in turn polls for a message while its neighbour works.
static void polling(MPI_Comm comm, int rank) {
    for (int turn = 0; turn < ROUNDS; turn++) {
        if (rank % 2 == turn % 2) {
            MPI_Request request;
            int done = 0;
            MPI_Irecv(buffer, 1, MPI_CHAR, rank ^ 1, 0, comm, &request);
            while (!done)
                MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        } else {
            rest(0.15);
            MPI_Send(buffer, 1, MPI_CHAR, rank ^ 1, 0, comm);
        }
    }
}

// Each in turn sends a long message to a neighbour that is busy elsewhere.
static void blocking_sends(MPI_Comm comm, int rank) {
    for (int turn = 0; turn < ROUNDS; turn++) {
        if (rank % 2 == turn % 2) {
            MPI_Send(buffer, LONG, MPI_CHAR, rank ^ 1, 0, comm);
        } else {
            rest(0.15);
            MPI_Recv(buffer, LONG, MPI_CHAR, rank ^ 1, 0, comm, MPI_STATUS_IGNORE);
        }
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm comms[5];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 5; i++)
        MPI_Comm_split(MPI_COMM_WORLD, i == 0 && rank > 1 ? MPI_UNDEFINED : 0, rank, &comms[i]);
    tiny_allreduces(comms[0], rank);
    late_member(comms[1], rank);
    creation(comms[2]);
    polling(comms[3], rank);
    blocking_sends(comms[4], rank);
    for (int i = 0; i < 5; i++)
        if (comms[i] != MPI_COMM_NULL)
            MPI_Comm_free(&comms[i]);
    tell_disturbance();
    MPI_Finalize();
}
