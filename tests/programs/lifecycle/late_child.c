/* Uses MPI once a process has ended: late_child [PID]. The process is this one, which forks and exits with 2, or the parent PID. */
#include "program.h"
#include <unistd.h>

int main(int argc, char **argv) {
    static char out[400], in[400];
    int awaited = argc > 1 ? atoi(argv[1]) : getpid();
    if (argc < 2 && fork()) exit(2);
    while (getppid() == awaited) usleep(1000);
    begin(&argc, &argv);
    MPI_Allreduce(out, in, 353, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
