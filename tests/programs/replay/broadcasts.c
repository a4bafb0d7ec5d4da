/* A root hands a block of BYTES to all others COUNT times, who sum it up; nothing else takes time. Arguments: BYTES, COUNT. */
#include "program.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(argc == 3);
    int bytes = atoi(argv[1]), count = atoi(argv[2]);
    unsigned char *block = malloc(bytes);
    for (int at = 0; at < count; at++) {
        memset(block, rank == 0 ? at : 255, bytes);
        MPI_Bcast(block, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        unsigned long sum = 0;
        for (int byte = 0; byte < bytes; byte++) sum += block[byte];
        EXPECT(sum == (unsigned long)bytes * (at % 256));
    }
    free(block);
    MPI_Finalize();
    return 0;
}
