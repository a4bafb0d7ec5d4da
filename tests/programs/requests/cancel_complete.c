/* A small send that is cancelled after it returned: usually it is complete, and goes its way. Prints whether it was
 * cancelled all the same. */
#include "program.h"

enum { BYTES = 29 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[BYTES];
    int cancelled = 0;
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    if (rank == 0) {
        MPI_Request request;
        MPI_Status status;
        MPI_Isend(data, BYTES, MPI_BYTE, 1, 0, dup, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        printf("cancelled %d\n", cancelled);
    }
    MPI_Bcast(&cancelled, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 1 && !cancelled) MPI_Recv(data, BYTES, MPI_BYTE, 0, 0, dup, MPI_STATUS_IGNORE);
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
