/* Sends that are complete when they start get one handle from MPICH, receives from nobody another one. The program keeps
 * the handles of sends elsewhere than where they were stored, with many such receives open: each wait is the communicator's
 * on which the send was started, also long afterwards. */
#include "program.h"

enum { RECEIVES = 70, SENDS = 10 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int data = 0;
    MPI_Comm first, second;
    MPI_Request receives[RECEIVES], sends[SENDS], started;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    for (int i = 0; i < RECEIVES; i++)
        MPI_Irecv(&data, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &receives[i]);
    for (int i = 0; i < SENDS; i++) {
        MPI_Isend(&data, 1, MPI_INT, MPI_PROC_NULL, 0, first, &started);
        sends[i] = started;
    }
    MPI_Waitall(SENDS, sends, MPI_STATUSES_IGNORE);
    MPI_Waitall(RECEIVES, receives, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&first);
    for (int i = 0; i < SENDS; i++) {
        MPI_Isend(&data, 1, MPI_INT, MPI_PROC_NULL, 0, second, &started);
        sends[i] = started;
        MPI_Wait(&sends[i], MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&second);
    MPI_Finalize();
    return 0;
}
