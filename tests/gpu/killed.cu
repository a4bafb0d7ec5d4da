// Rank 1 is killed after it waited for the GPU, with a kernel that it did not wait for: what it counted until then is left.
#include "check.h"

#include <csignal>

static const int LANES = 32;

extern "C" __global__ void before(unsigned *p) {
    ((volatile unsigned *)p)[blockIdx.x * blockDim.x + threadIdx.x] = 1; // @before
}

extern "C" __global__ void after(unsigned *p) {
    ((volatile unsigned *)p)[blockIdx.x * blockDim.x + threadIdx.x] = 1; // @after
}

int main(int count, char **arguments) {
    begin(&count, &arguments);
    unsigned *cells = device_memory<unsigned>(WHOLE);
    if (rank == 0) {
        mpisee_name_memory(cells, WHOLE, "ghost cells");
    }
    unsigned *theirs = memory_of_other(cells);
    if (rank == 1) {
        before<<<7, LANES>>>(theirs);
        CHECK(cudaDeviceSynchronize());
        usleep(50000); // counts are taken no more often than that
        before<<<4, LANES>>>(theirs);
        CHECK(cudaDeviceSynchronize());
        expect({"before", "store", 4, "before"}, 0, "ipc", "ghost cells", (7 + 4) * LANES);
        usleep(50000);
        CHECK(cudaDeviceSynchronize());
        after<<<9, LANES>>>(theirs);
        raise(SIGKILL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    end();
    return 0;
}
