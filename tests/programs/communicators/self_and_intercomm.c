/* Programs that profilers which ask every communicator for its parent do not survive: communication on
 * MPI_COMM_SELF; MPI_Intercomm_create and MPI_Intercomm_merge and a barrier on what they create.
 */
#include <mpi.h>

int main(int argc, char **argv) {
    int rank, out = 1, in;
    char buffer[523];
    MPI_Comm half, between, merged;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_SELF);
    MPI_Bcast(buffer, 509, MPI_BYTE, 0, MPI_COMM_SELF);
    MPI_Allreduce(&out, &in, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    MPI_Sendrecv(buffer, 257, MPI_BYTE, 0, 1, buffer + 257, 257, MPI_BYTE, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank < 2 ? 2 : 0, 1, &between);
    MPI_Barrier(between);
    MPI_Intercomm_merge(between, rank < 2, &merged);
    MPI_Barrier(merged);
    MPI_Bcast(buffer, 521, MPI_BYTE, 1, merged);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
