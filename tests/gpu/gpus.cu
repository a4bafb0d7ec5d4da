// Ranks 0 and 1 use the first GPU that they see, rank 2 none: what gpus.csv and ranks.csv are to say. Its argument may be `killed`:
// rank 1 is killed before the end, after calls in which a GPU can be noticed.
#include "check.h"

#include <csignal>
#include <cstring>

static const int CALLS = 4000;

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int devices = 0;
    void *memory;
    if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0 && rank < 2) {
        CHECK(cudaSetDevice(0));
        CHECK(cudaMalloc(&memory, 4096));
    }
    int word = 0;
    for (int call = 0; call < CALLS; call++) {
        MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT, MPI_BOR, MPI_COMM_SELF);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d sees %d GPUs\n", rank, devices);
    fflush(stdout);
    if (count > 1 && !strcmp(arguments[1], "killed") && rank == 1) {
        kill(getpid(), SIGKILL);
    }
    MPI_Finalize();
    return 0;
}
