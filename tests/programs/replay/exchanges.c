/* All ranks exchange blocks of BYTES with each other COUNT times; little else takes time. Arguments: BYTES, COUNT. */
#include "program.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(argc == 3);
    long bytes = atol(argv[1]), count = atol(argv[2]);
    unsigned char *sent = malloc(size * bytes), *got = malloc(size * bytes);
    for (int peer = 0; peer < size; peer++) memset(sent + peer * bytes, 16 * rank + peer, bytes);
    for (long at = 0; at < count; at++) {
        memset(got, 255, size);
        MPI_Alltoall(sent, bytes, MPI_BYTE, got, bytes, MPI_BYTE, MPI_COMM_WORLD);
        for (int peer = 0; peer < size; peer++) EXPECT(got[(peer + 1) * bytes - 1] == 16 * peer + rank);
    }
    free(sent);
    free(got);
    MPI_Finalize();
    return 0;
}
