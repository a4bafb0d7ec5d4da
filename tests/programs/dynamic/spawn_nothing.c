/* Spawns a program that does not exist, under an MPI that spawns nothing; prints what comes of it. */
#include "program.h"

int main(int argc, char **argv) {
    MPI_Comm inter = MPI_COMM_NULL;
    int error = 0, class = 0;
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = MPI_Comm_spawn("/nonexistent/program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, &error);
    EXPECT(code != MPI_SUCCESS);
    MPI_Error_class(code, &class);
    if (rank == 0) printf("class %d, communicator %s\n", class, inter == MPI_COMM_NULL ? "null" : "not null");
    MPI_Finalize();
    return 0;
}
