/* Persistent receives with less room than their message, completed one by one: the handles stay. First one alone, then
 * two at once, of which nothing shows which one failed. Prints the classes of the errors. */
#include "program.h"

enum { SENT = 53, ROOM = 47, MESSAGES = 3 };

static void tell(const char *call, int code) {
    int class;
    MPI_Error_class(code, &class);
    printf("%s %d\n", call, class == MPI_ERR_TRUNCATE);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[SENT], rooms[MESSAGES][ROOM];
    MPI_Request requests[MESSAGES];
    MPI_Status status;
    int index;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 1) {
        for (int i = 0; i < MESSAGES; i++) MPI_Send(data, SENT, MPI_BYTE, 0, i, MPI_COMM_WORLD);
    } else if (rank == 0) {
        for (int i = 0; i < MESSAGES; i++)
            MPI_Recv_init(rooms[i], ROOM, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]);
        MPI_Start(&requests[0]);
        tell("Waitany", MPI_Waitany(1, requests, &index, &status));
        /* Both have arrived, so that both fail at once. */
        for (int i = 1; i < MESSAGES; i++) MPI_Probe(1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Startall(2, requests + 1);
        tell("Waitany", MPI_Waitany(2, requests + 1, &index, &status));
        tell("Waitany", MPI_Waitany(2, requests + 1, &index, &status));
        for (int i = 0; i < MESSAGES; i++) MPI_Request_free(&requests[i]);
    }
    MPI_Finalize();
    return 0;
}
