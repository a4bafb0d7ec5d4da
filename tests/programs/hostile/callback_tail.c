/* A delete function of an attribute whose last act is a call to MPI, which the compiler makes a jump: then MPI is the
 * caller's caller. Right: both ranks print "ok"; the ten sends and broadcasts in the callbacks are counted as not seen. */
#include "common.h"

static int value, rank;

static int delete(MPI_Comm comm, int key, void *attribute, void *extra) {
    (void)comm, (void)key, (void)attribute, (void)extra;
    if (rank == 0) return MPI_Send(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
    return MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_SELF);
}

int main(int argc, char **argv) {
    int key;
    MPI_Comm comm;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &key, NULL);
    for (int i = 0; i < 10; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_attr(comm, key, NULL);
        MPI_Comm_free(&comm);
        if (rank == 1) MPI_Recv(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    ok(rank);
    MPI_Finalize();
    return 0;
}
