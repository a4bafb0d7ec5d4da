/* Receives that are posted long before they complete: posted. On 2 ranks: three times, rank 1 posts a receive of 4421 bytes, and 700 ms later rank 0
 * sends them. Nobody calls MPI meanwhile. */
#include "program.h"
#include <unistd.h>

int main(int argc, char **argv) {
    static char bytes[4421];
    begin(&argc, &argv);
    for (int turn = 0; turn < 3; turn++) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (rank == 1) MPI_Irecv(bytes, sizeof bytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request);
        usleep(700 * 1000);
        if (rank == 0) MPI_Send(bytes, sizeof bytes, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
