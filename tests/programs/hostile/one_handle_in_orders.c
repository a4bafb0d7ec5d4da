/* Sends that are complete at once have one handle in Open MPI's pml/ucx. Waits for pairs on two communicators: one by one, in
 * the other order, after moving them to other variables, or together. Prints how many pairs had one handle. */
#include "program.h"

enum { PAIRS = 100, BYTES = 4 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    const char *how = argc > 1 ? argv[1] : "each";
    MPI_Comm comms[2];
    MPI_Request requests[2], moved[2];
    int data = 1, same = 0;
    for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int pair = 0; pair < PAIRS; pair++) {
        if (rank == 0) {
            for (int i = 0; i < 2; i++) MPI_Isend(&data, 1, MPI_INT, 1, 0, comms[i], &requests[i]);
            same += requests[0] == requests[1];
            if (strcmp(how, "together") == 0) {
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            } else if (strcmp(how, "each") == 0) {
                for (int i = 0; i < 2; i++) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            } else if (strcmp(how, "last_first") == 0) {
                for (int i = 1; i >= 0; i--) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            } else {
                moved[0] = requests[0], moved[1] = requests[1];
                for (int i = 0; i < 2; i++) MPI_Wait(&moved[i], MPI_STATUS_IGNORE);
            }
        } else {
            for (int i = 0; i < 2; i++) MPI_Recv(&data, 1, MPI_INT, 0, 0, comms[i], MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0) printf("pairs: %d\n", same);
    for (int i = 0; i < 2; i++) MPI_Comm_free(&comms[i]);
    MPI_Finalize();
    return 0;
}
