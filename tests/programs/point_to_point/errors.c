/* Calls that fail: a receive that is too short, ranks that do not exist, a communicator that does not. Their
 * errors are returned as they are without the profiler, and the program goes on. Prints the error classes. */
#include "program.h"

enum { LONG = 2999, SHORT = 1499, AFTER = 2503 };

static void tell(const char *what, int code) {
    int class;
    MPI_Error_class(code, &class);
    printf("%d %s %d %d\n", rank, what, class == MPI_SUCCESS, class);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[LONG];
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (rank == 0) {
        MPI_Send(data, LONG, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Send(data, LONG, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
    } else if (rank == 1) {
        tell("truncated", MPI_Recv(data, SHORT, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status));
        MPI_Irecv(data, SHORT, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request);
        tell("truncated later", MPI_Wait(&request, &status));
    }
    tell("send", MPI_Send(data, 701, MPI_BYTE, size + 3, 0, MPI_COMM_WORLD));
    tell("isend", MPI_Isend(data, 709, MPI_BYTE, -7, 0, MPI_COMM_WORLD, &request));
    tell("recv", MPI_Recv(data, 719, MPI_BYTE, size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    tell("irecv", MPI_Irecv(data, 727, MPI_BYTE, size, 0, MPI_COMM_WORLD, &request));
    tell("sendrecv", MPI_Sendrecv(data, 733, MPI_BYTE, size, 0, data + 800, 733, MPI_BYTE, size, 0,
                                  MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    tell("init", MPI_Send_init(data, 739, MPI_BYTE, size, 0, MPI_COMM_WORLD, &request));
    tell("count", MPI_Send(data, -1, MPI_BYTE, 0, 0, MPI_COMM_WORLD));
    tell("type", MPI_Send(data, 743, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD));
    tell("comm", MPI_Send(data, 751, MPI_BYTE, 0, 0, MPI_COMM_NULL));
    if (rank == 0)
        MPI_Send(data, AFTER, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
    else if (rank == 1)
        tell("after", MPI_Recv(data, LONG, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI_Finalize();
    return 0;
}
