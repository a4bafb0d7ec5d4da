/* Tries whether this MPI can connect processes of two worlds: prints yes or no. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    char port[MPI_MAX_PORT_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int code = MPI_Open_port(MPI_INFO_NULL, port);
    puts(code == MPI_SUCCESS ? "yes" : "no");
    if (code == MPI_SUCCESS) MPI_Close_port(port);
    MPI_Finalize();
    return 0;
}
