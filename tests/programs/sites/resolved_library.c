/* The library that resolved.c opens. */
#include <mpi.h>

int gather_in_library(void) {
    int own, sum = 0, ranks[64], size;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allgather(&own, 1, MPI_INT, ranks, 1, MPI_INT, MPI_COMM_WORLD); /* the library calls */
    for (int rank = 0; rank < size; rank++) sum += ranks[rank];
    return sum;
}

#ifdef SECOND
/* Behind the code of the other, so that the call has the same address in the file. */
int second(void) { return 2; }
#endif
