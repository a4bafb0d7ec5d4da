/* Requests that are looked at with MPI_Request_get_status before they are completed, and one that is none. Prints how often
 * process 1 looked. */
#include "program.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[3001];
    MPI_Comm dup;
    MPI_Request request;
    MPI_Status status;
    int flag = 0, looked = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    if (rank == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Send(data, 1201, MPI_BYTE, 1, 3, dup);
    } else {
        MPI_Irecv(data, sizeof data, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, dup, &request);
        MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
        EXPECT(!flag);
        MPI_Barrier(MPI_COMM_WORLD);
        for (looked = 1; !flag; looked++) MPI_Request_get_status(request, &flag, &status);
        expect_status(&status, 0, 3, 1201);
        EXPECT(request != MPI_REQUEST_NULL);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status);
        EXPECT(flag);
        printf("looked %d\n", looked);
    }
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
