/* Ends MPI, and goes on as a program without it. */
#include "program.h"
#include <unistd.h>

int main(int argc, char **argv) {
    char from[359] = {0}, to[359];
    if (argc > 1) return 4;
    begin(&argc, &argv);
    MPI_Allreduce(from, to, sizeof from, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    MPI_Finalize();
    execl("/proc/self/exe", argv[0], "again", NULL);
    return 1;
}
