/* Receives with less room than their message: it is gone, and the program goes on. Prints the classes of the errors. */
#include "program.h"

enum { SENT = 44, ROOM = 40, MESSAGES = 8 };

static void tell(const char *call, int code) {
    int class;
    MPI_Error_class(code, &class);
    printf("%s %d\n", call, class == MPI_ERR_IN_STATUS || class == MPI_ERR_TRUNCATE);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[SENT], other[SENT];
    MPI_Request requests[2];
    MPI_Status status, statuses[2];
    MPI_Message message;
    int flag = 0, index, count, indices[2], code = MPI_SUCCESS;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 1) {
        for (int i = 0; i < MESSAGES; i++) MPI_Send(data, SENT, MPI_BYTE, 0, i, MPI_COMM_WORLD);
        MPI_Send(data, 31, MPI_BYTE, 0, MESSAGES, MPI_COMM_WORLD);
        MPI_Recv(data, 29, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 0) {
        tell("Recv", MPI_Recv(data, ROOM, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI_Mprobe(1, 1, MPI_COMM_WORLD, &message, &status);
        tell("Mrecv", MPI_Mrecv(data, ROOM, MPI_BYTE, &message, &status));
        tell("Sendrecv", MPI_Sendrecv(other, 29, MPI_BYTE, 1, 2, data, ROOM, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &status));
        MPI_Irecv(data, ROOM, MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[0]);
        tell("Wait", MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        MPI_Irecv(data, ROOM, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &requests[0]);
        while (!flag && code == MPI_SUCCESS) code = MPI_Test(&requests[0], &flag, &status);
        tell("Test", code);
        MPI_Irecv(data, ROOM, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &requests[0]);
        tell("Waitany", MPI_Waitany(1, requests, &index, &status));
        MPI_Irecv(data, ROOM, MPI_BYTE, 1, 6, MPI_COMM_WORLD, &requests[0]);
        tell("Waitsome", MPI_Waitsome(1, requests, &count, indices, statuses));
        MPI_Irecv(data, ROOM, MPI_BYTE, 1, 7, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(other, ROOM, MPI_BYTE, 1, 8, MPI_COMM_WORLD, &requests[1]);
        tell("Waitall", MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        /* It may have been left pending. */
        if (requests[1] != MPI_REQUEST_NULL) MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
