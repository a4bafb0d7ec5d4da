/* Compiled with -fsanitize=address. Each rank makes one MPI_Allreduce of 521 bytes, and rank 0 starts a shell, which
 * says whether it has the sanitizer, too. */
#include "program.h"

int main(int argc, char **argv) {
    char in[521] = {0}, out[521];
    begin(&argc, &argv);
    MPI_Allreduce(in, out, 521, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    if (rank == 0) {
        EXPECT(system("case $LD_PRELOAD in *asan*) echo sanitized shell;; *) echo shell;; esac") == 0);
    }
    MPI_Finalize();
    return 0;
}
