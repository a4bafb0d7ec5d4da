// An error handler that throws an exception through MPI, on rank 1.
#include <cstdio>
#include <mpi.h>

static void leave(MPI_Comm *, int *, ...) { throw 1; }

int main(int argc, char **argv) {
    MPI_Errhandler handler;
    MPI_Comm dup;
    int rank, data = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_errhandler(leave, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    if (rank == 1) {
        try {
            MPI_Send(&data, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
        } catch (int) {
            std::printf("caught\n");
        }
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Barrier(dup);
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
