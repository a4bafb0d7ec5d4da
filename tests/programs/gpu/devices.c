/* devices end|killed DRIVER: uses devices of a driver that is pretended. Rank 0 uses the first that it sees, rank 1 the second,
 * as its current one, and the third; rank 2 initialises the driver, and uses none; rank 3 does not load it. Rank 1 may be killed. */
#include "../program.h"
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 3) {
        return 7;
    }
    begin(&argc, &argv);
    if (rank < 3) {
        void *library = dlopen(argv[2], RTLD_NOW);
        EXPECT(library);
        int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
        void (*context)(int, int) = (void (*)(int, int))dlsym(library, "pretend_context");
        EXPECT(init && context && !init(0));
        if (rank == 0) {
            context(0, 0);
        }
        if (rank == 1) {
            context(1, 1);
            context(2, 0);
        }
    }
    char word = 0;
    for (int i = 0; i < 4000; i++) {
        MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_BYTE, MPI_BOR, MPI_COMM_SELF);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1 && !strcmp(argv[1], "killed")) {
        kill(getpid(), SIGKILL);
    }
    MPI_Finalize();
    return 0;
}
