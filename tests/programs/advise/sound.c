// A program for 4 processes that is as it should be: a halo exchange posted before the work, a reduction now and then,
// communicators that are made once and freed.
#include "work.h"
#include <mpi.h>

enum { ROUNDS = 60, HALO = 100 };

static double in[2][HALO], out[2][HALO];

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int size, left, right, periodic = 1;
    MPI_Comm ring;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
    MPI_Cart_shift(ring, 0, 1, &left, &right);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[4];
        MPI_Irecv(in[0], HALO, MPI_DOUBLE, left, 0, ring, &requests[0]);
        MPI_Irecv(in[1], HALO, MPI_DOUBLE, right, 1, ring, &requests[1]);
        MPI_Isend(out[0], HALO, MPI_DOUBLE, right, 0, ring, &requests[2]);
        MPI_Isend(out[1], HALO, MPI_DOUBLE, left, 1, ring, &requests[3]);
        rest(40e-3);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        if (round % 10 == 9) {
            double sum = 1;
            MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, ring);
        }
    }
    MPI_Comm_free(&ring);
    tell_disturbance();
    MPI_Finalize();
}
