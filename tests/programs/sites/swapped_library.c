/* A library that swapped.c loads: one call instruction, for whatever operation. */
#include <mpi.h>

typedef int (*Operation)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);

void call_in_library(Operation operation, int calls, MPI_Datatype type, MPI_Op sum, MPI_Comm comm) {
    int from[64] = {0}, to[64];
    for (int call = 0; call < calls; call++) operation(from, to, 1, type, sum, comm);
}

#ifdef SECOND
/* Behind the code of the other, so that the call has the same address in the file. */
int second(void) { return 2; }
#endif
