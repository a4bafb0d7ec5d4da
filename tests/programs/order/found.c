/* Each rank looks for messages until it finds them, in four ways, and works on the memory of the next rank. */
#include "../program.h"

enum { PROBED = 1019, MATCHED = 1511, SEEN = 2053, PUT = 307, GOT = 601 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    static char out[4096], in[4096], memory[4096];
    for (int step = 0; step < 20; step++) {
        MPI_Request requests[3], received;
        MPI_Message message;
        int found = 0;
        MPI_Isend(out, PROBED, MPI_BYTE, next, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, MATCHED, MPI_BYTE, next, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(out, SEEN, MPI_BYTE, next, 3, MPI_COMM_WORLD, &requests[2]);
        while (!found)
            MPI_Iprobe(before, 1, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
        MPI_Recv(in, PROBED, MPI_BYTE, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (found = 0; !found;)
            MPI_Improbe(before, 2, MPI_COMM_WORLD, &found, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(in, MATCHED, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        MPI_Irecv(in, SEEN, MPI_BYTE, before, 3, MPI_COMM_WORLD, &received);
        for (found = 0; !found;)
            MPI_Request_get_status(received, &found, MPI_STATUS_IGNORE);
        MPI_Wait(&received, MPI_STATUS_IGNORE);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Win window;
    MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(out, PUT, MPI_BYTE, next, 0, PUT, MPI_BYTE, window);
    MPI_Get(in, GOT, MPI_BYTE, before, 1024, GOT, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Finalize();
}
