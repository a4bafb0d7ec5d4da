/* Another tool by the profiling interface, as a library to be preloaded. */
#include <mpi.h>

int MPI_Init(int *argc, char ***argv) { return PMPI_Init(argc, argv); }

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Finalize(void) { return PMPI_Finalize(); }
