/* Two ranks exchange a long and a short message COUNT times, taking turns with the long one. After each, rank 0 sends a
 * short one and receives none, and rank 1 the other way around. Arguments: LONG, SHORT, COUNT. */
#include "program.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(argc == 4 && size == 2);
    int longer = atoi(argv[1]), shorter = atoi(argv[2]), count = atoi(argv[3]), peer = 1 - rank;
    char *out = calloc(longer, 1), *in = calloc(longer, 1);
    MPI_Status status;
    for (int at = 0; at < count; at++) {
        int sends_long = (at + rank) % 2 == 0;
        MPI_Sendrecv(out, sends_long ? longer : shorter, MPI_BYTE, peer, 1, in, longer, MPI_BYTE, peer, 1, MPI_COMM_WORLD,
                     &status);
        expect_status(&status, peer, 1, sends_long ? shorter : longer);
        /* As on the border of a grid. */
        int to = rank == 0 ? peer : MPI_PROC_NULL, from = rank == 0 ? MPI_PROC_NULL : peer;
        MPI_Sendrecv(out, shorter, MPI_BYTE, to, 2, in, longer, MPI_BYTE, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
