/* Probe and Iprobe see a message without receiving it. Prints how often each rank probed. */
#include "program.h"

enum { FIRST = 1511, SECOND = 1523 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[SECOND];
    MPI_Status status;
    int asked = 0;
    if (rank == 0) {
        MPI_Send(data, FIRST, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Send(data, SECOND, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Probe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        expect_status(&status, 0, 1, FIRST);
        MPI_Recv(data, FIRST, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int flag = 0; !flag; asked++) MPI_Iprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        expect_status(&status, 0, 2, SECOND);
        MPI_Recv(data, SECOND, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int flag = 1;
        MPI_Iprobe(0, 3, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        EXPECT(!flag);
        printf("asked %d\n", asked);
    }
    MPI_Finalize();
    return 0;
}
