/* A completion call that MPI refuses with an error code, and that writes nothing, by the argument:
 *   some  MPI_Waitsome with a negative count, and a variable for the number that has a random value
 *   null  MPI_Waitall without an array of requests
 *   any   MPI_Waitany without a place for the index
 * The program goes on.
 * Right: "refused" or "taken", as without the profiler, and no crash. */
#include "common.h"
#include <limits.h>

int main(int argc, char **argv) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int indices[1], outcount = INT_MAX, code = MPI_SUCCESS;
    /* From variables, since the compiler may know what MPI declares of its arguments. */
    MPI_Request *volatile no_requests = NULL;
    int *volatile no_index = NULL;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (is(argc, argv, "some")) code = MPI_Waitsome(-1, &request, &outcount, indices, &status);
    if (is(argc, argv, "null")) code = MPI_Waitall(2, no_requests, MPI_STATUSES_IGNORE);
    if (is(argc, argv, "any")) code = MPI_Waitany(1, &request, no_index, &status);
    puts(code == MPI_SUCCESS ? "taken" : "refused");
    MPI_Finalize();
    return 0;
}
