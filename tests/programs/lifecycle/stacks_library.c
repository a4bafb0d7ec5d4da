/* A library that makes the Allreduce of stacks.c. */
#include <mpi.h>

void reduce_in_library(double *out, double *in) {
    MPI_Allreduce(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* the library calls */
    *out += *in; /* so that the call is not the last thing it does, and leaves no trace of it */
}
