/* Ranks of a communicator are not those of the world: here they run backwards, and each sends one up. */
#include "program.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[8191];
    MPI_Comm odd_or_even;
    int me;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &odd_or_even);
    MPI_Comm_rank(odd_or_even, &me);
    if (me == 0)
        MPI_Send(data, 601 + rank, MPI_BYTE, 1, 0, odd_or_even);
    else if (me == 1)
        MPI_Recv(data, 8191, MPI_BYTE, MPI_ANY_SOURCE, 0, odd_or_even, MPI_STATUS_IGNORE);
    MPI_Comm_free(&odd_or_even);
    MPI_Finalize();
    return 0;
}
