/* Matched probes of MPI_PROC_NULL find a message that stands for all such, which is received like any other. */
#include "program.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[3511];
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Message messages[2];
    MPI_Request request;
    int flag;
    MPI_Mprobe(MPI_PROC_NULL, 0, dup, &messages[0], MPI_STATUS_IGNORE);
    MPI_Improbe(MPI_PROC_NULL, 0, dup, &flag, &messages[1], MPI_STATUS_IGNORE);
    EXPECT(flag && messages[0] == MPI_MESSAGE_NO_PROC && messages[1] == MPI_MESSAGE_NO_PROC);
    MPI_Mrecv(data, sizeof data, MPI_BYTE, &messages[0], MPI_STATUS_IGNORE);
    MPI_Imrecv(data, sizeof data, MPI_BYTE, &messages[1], &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
