// Steps of a program, of which `--gpu-intervals` counts some: a kernel that is the same in each, one that does more in some, one
// that comes late, and one that is launched once, all in the NULL stream, or, with a second argument, some in another.
#include "check.h"

static const int STEPS = 3000, LATE = 1500, LANES = 32;
static const size_t BYTES = 64 << 10;

extern "C" __global__ void steady(unsigned *p) {
    ((volatile unsigned *)p)[blockIdx.x * LANES + threadIdx.x] = 1; // @steady
}

extern "C" __global__ void varying(unsigned *p) {
    ((volatile unsigned *)p)[blockIdx.x * LANES + threadIdx.x] = 2; // @varying
}

extern "C" __global__ void late(const unsigned long long *p, unsigned long long *own) {
    own[threadIdx.x] = ((const volatile unsigned long long *)p)[threadIdx.x]; // @late
}

extern "C" __global__ void once(unsigned *p) {
    ((volatile unsigned *)p)[threadIdx.x] = 3; // @once
}

int main(int count, char **arguments) {
    begin(&count, &arguments);
    unsigned *cells = device_memory<unsigned>(WHOLE), *own = device_memory<unsigned>(BYTES);
    const char *names[] = {"cells of 0", "cells of 1"};
    mpisee_name_memory(cells, WHOLE, names[rank]);
    unsigned *theirs = memory_of_other(cells), *pinned = pinned_memory<unsigned>(BYTES, "pinned words");
    cudaStream_t stream = nullptr;
    if (count > 2) {
        CHECK(cudaStreamCreate(&stream));
    }
    uint64_t blocks = 0;
    for (int step = 0; step < STEPS; step++) {
        steady<<<5, LANES, 0, stream>>>(pinned);
        unsigned now = 1 + (unsigned)step * 7 % 4 + (unsigned)rank;
        blocks += now;
        varying<<<now, LANES>>>(theirs);
        if (step >= LATE) {
            late<<<1, LANES, 0, stream>>>((unsigned long long *)pinned, (unsigned long long *)own);
        }
        if (step % 3) {
            CHECK(cudaStreamSynchronize(stream));
        }
        CHECK(cudaDeviceSynchronize());
    }
    once<<<1, LANES>>>(pinned);
    CHECK(cudaDeviceSynchronize());
    expect({"steady", "store", 4, "steady"}, rank, "pinned", "pinned words", (uint64_t)STEPS * 5 * LANES);
    expect({"varying", "store", 4, "varying"}, 1 - rank, "ipc", names[1 - rank], blocks * LANES);
    expect({"late", "load", 8, "late"}, rank, "pinned", "pinned words", (uint64_t)(STEPS - LATE) * LANES);
    expect({"once", "store", 4, "once"}, rank, "pinned", "pinned words", LANES);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(cudaIpcCloseMemHandle(theirs));
    end();
    return 0;
}
