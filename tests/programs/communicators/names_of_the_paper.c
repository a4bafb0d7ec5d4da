/* The example of naming in the mpisee paper (Fig. 1): cart_create, then split, then dup by the one half and create
 * by the other at the same time.
 */
#include <mpi.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Comm cart, half, last;
    MPI_Group group;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){2, 2}, (int[]){0, 0}, 0, &cart);
    MPI_Comm_split(cart, rank / 2, 0, &half);
    if (rank < 2) {
        MPI_Comm_dup(half, &last);
    } else {
        MPI_Comm_group(half, &group);
        MPI_Comm_create(half, group, &last);
        MPI_Group_free(&group);
    }
    MPI_Barrier(last);
    MPI_Finalize();
    return 0;
}
