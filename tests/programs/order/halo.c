/* A loop as many programs have: `argv[1]` times a halo exchange in a ring and a sum, and a broadcast every tenth time. At
 * the end each rank reports to rank 0. With a second argument rank 1 is killed there. */
#include "../program.h"
#include <signal.h>

enum { HALO = 1013, ROOTED = 2027, REPORT = 409, TAG = 5 };

static void exchange(MPI_Comm ring) {
    static char left_in[HALO], right_in[HALO], left_out[HALO], right_out[HALO];
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Request requests[4];
    MPI_Irecv(left_in, HALO, MPI_BYTE, left, TAG, ring, &requests[0]);
    MPI_Irecv(right_in, HALO, MPI_BYTE, right, TAG + 1, ring, &requests[1]);
    MPI_Isend(right_out, HALO, MPI_BYTE, right, TAG, ring, &requests[2]);
    MPI_Isend(left_out, HALO, MPI_BYTE, left, TAG + 1, ring, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(argc > 1);
    int steps = atoi(argv[1]);
    MPI_Comm ring;
    MPI_Comm_dup(MPI_COMM_WORLD, &ring);
    char rooted[ROOTED] = {0}, report[REPORT] = {0};
    for (int step = 0; step < steps; step++) {
        exchange(ring);
        double residual = 1, sum = 0;
        MPI_Allreduce(&residual, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        EXPECT(sum == size);
        if (step % 10 == 9)
            MPI_Bcast(rooted, ROOTED, MPI_BYTE, 0, ring);
    }
    if (rank == 0) {
        for (int other = 1; other < size; other++)
            MPI_Recv(report, REPORT, MPI_BYTE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(report, REPORT, MPI_BYTE, 0, 7, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 2) {
        if (rank == 1)
            raise(SIGKILL);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Comm_free(&ring);
    MPI_Finalize();
}
