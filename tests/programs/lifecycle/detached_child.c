/* detached_child FILE: forks in MPI a process that closes its standard descriptors and stays until FILE is there. */
#include "program.h"
#include <unistd.h>

int main(int argc, char **argv) {
    static char out[400], in[400];
    begin(&argc, &argv);
    EXPECT(argc == 2);
    if (fork() == 0) {
        for (int descriptor = 0; descriptor < 3; descriptor++) close(descriptor);
        alarm(1000);
        while (access(argv[1], F_OK) != 0) usleep(1000);
        _exit(0);
    }
    MPI_Allreduce(out, in, 359, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
