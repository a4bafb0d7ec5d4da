/* Nothing of MPI_DATATYPE_NULL is communicated, which one MPI allows and another refuses, here without ending the
 * program; each process by itself. Prints which calls were refused. */
#include <mpi.h>
#include <stdio.h>

static int rank;

static int is_refused(const char *call, int code) {
    if (rank == 0) printf("%s %s\n", call, code == MPI_SUCCESS ? "allowed" : "refused");
    return code != MPI_SUCCESS;
}

#define NONE NULL, 0, MPI_DATATYPE_NULL
#define TRY(call, ...) is_refused(#call, call(__VA_ARGS__))

static void point_to_point(MPI_Comm comm) {
    MPI_Request request;
    if (!TRY(MPI_Irecv, NONE, 0, 1, comm, &request)) {
        TRY(MPI_Send, NONE, 0, 1, comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (!TRY(MPI_Isend, NONE, 0, 2, comm, &request)) {
        TRY(MPI_Recv, NONE, 0, 2, comm, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    TRY(MPI_Sendrecv, NONE, 0, 3, NONE, 0, 3, comm, MPI_STATUS_IGNORE);
    if (!TRY(MPI_Send_init, NONE, 0, 4, comm, &request)) MPI_Request_free(&request);
    if (!TRY(MPI_Recv_init, NONE, 0, 4, comm, &request)) MPI_Request_free(&request);
}

static void collectives(MPI_Comm comm) {
    int none[1] = {0};
    MPI_Request request;
    TRY(MPI_Bcast, NONE, 0, comm);
    TRY(MPI_Gather, NONE, NONE, 0, comm);
    TRY(MPI_Scatterv, NULL, none, none, MPI_DATATYPE_NULL, NONE, 0, comm);
    TRY(MPI_Allgather, NONE, NONE, comm);
    TRY(MPI_Alltoallv, NULL, none, none, MPI_DATATYPE_NULL, NULL, none, none, MPI_DATATYPE_NULL, comm);
    if (!TRY(MPI_Ibcast, NONE, 0, comm, &request)) MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    point_to_point(comm);
    collectives(comm);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
