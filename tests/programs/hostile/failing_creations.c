/* Creating calls that fail with an error code, after which the program goes on: on W by all ranks, with a grid that is
 * too large; on MPI_COMM_SELF by rank 1 alone. MPI_Comm_free and MPI_Comm_dup of MPI_COMM_NULL on rank 1 alone.
 * Right: both ranks print "ok". A call that fails counts for names: the copies are W_d2, S_d1 on rank 0, and S_d3 on
 * rank 1, with one MPI_Barrier each. */
#include "common.h"

static int fails(int code) { return code != MPI_SUCCESS; }

int main(int argc, char **argv) {
    MPI_Comm dup, own, none = MPI_COMM_NULL;
    int rank, size, good = 1, period = 0;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int too_many = size + 1;
    good &= fails(MPI_Cart_create(MPI_COMM_WORLD, 1, &too_many, &period, 0, &none));
    if (rank == 1) {
        good &= fails(MPI_Cart_create(MPI_COMM_SELF, 1, &too_many, &period, 0, &none));
        good &= fails(MPI_Comm_split(MPI_COMM_SELF, -4711, 0, &none));
        none = MPI_COMM_NULL;
        good &= fails(MPI_Comm_free(&none));
        good &= fails(MPI_Comm_dup(MPI_COMM_NULL, &none));
    }
    good &= !fails(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    good &= !fails(MPI_Comm_dup(MPI_COMM_SELF, &own));
    good &= !fails(MPI_Barrier(dup)) && !fails(MPI_Barrier(own));
    MPI_Comm_free(&own);
    MPI_Comm_free(&dup);
    if (good) ok(rank);
    MPI_Finalize();
    return 0;
}
