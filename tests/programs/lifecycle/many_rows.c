/* Many communicators, each with messages of many sizes: rows for which a segment takes some hundred KiB. */
#include "program.h"

enum { COMMUNICATORS = 300, SIZES = 16 };

int main(int argc, char **argv) {
    static MPI_Comm comms[COMMUNICATORS];
    static char data[1 << SIZES];
    begin(&argc, &argv);
    for (int i = 0; i < COMMUNICATORS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        for (int s = 0; s < SIZES; s++) MPI_Bcast(data, 1 << s, MPI_BYTE, i % size, comms[i]);
        MPI_Sendrecv_replace(data, 1009 + i, MPI_BYTE, (rank + 1) % size, 7, (rank + size - 1) % size, 7, comms[i],
                             MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
