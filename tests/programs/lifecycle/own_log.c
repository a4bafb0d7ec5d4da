/* Puts a log of its own in the place of stderr and stdout once it has its rank, as WRF does. */
#include "program.h"
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static char out[400], in[400];
    char name[32];
    begin(&argc, &argv);
    snprintf(name, sizeof name, "own.log.%d", rank);
    int file = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    EXPECT(file >= 0 && dup2(file, 2) == 2 && dup2(file, 1) == 1);
    MPI_Allreduce(out, in, 397, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
