/* MPI_Comm_idup_with_info, or MPI_Comm_idup where the MPI lacks it; says which. */
#include "program.h"

#if MPI_VERSION >= 4
#define DUPLICATE(comm, new, request) MPI_Comm_idup_with_info(comm, MPI_INFO_NULL, new, request)
#else
#define DUPLICATE(comm, new, request) MPI_Comm_idup(comm, new, request)
#endif

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm first, second;
    MPI_Request request;
    DUPLICATE(MPI_COMM_WORLD, &first, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    DUPLICATE(first, &second, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(second);
    MPI_Comm_free(&second);
    MPI_Comm_free(&first);
    if (rank == 0) printf("version %d\n", MPI_VERSION);
    MPI_Finalize();
    return 0;
}
