// Memory that comes and goes, a thousand times, with kernels between: allocated and freed, opened and closed by CUDA IPC,
// freed and allocated again at the same addresses, freed without a moment in which the program waits, and none for a while.
#include "check.h"

static const int MANY = 1000, AGAIN = 20, RETURNS = 4, WAITS = 12, LANES = 32;
static const size_t BYTES = 4096;

extern "C" __global__ void passing(unsigned *p) {
    ((volatile unsigned *)p)[threadIdx.x] = 1; // @passing
}

extern "C" __global__ void visiting(unsigned *p) {
    ((volatile unsigned *)p)[threadIdx.x] = 2; // @visiting
}

extern "C" __global__ void returning(unsigned *p) {
    ((volatile unsigned *)p)[threadIdx.x] = 4; // @returning
}

extern "C" __global__ void staying(unsigned *p) {
    ((volatile unsigned *)p)[threadIdx.x] = 3; // @staying
}

static void come_and_go() {
    for (int turn = 0; turn < MANY; turn++) {
        unsigned *memory = pinned_memory<unsigned>(BYTES, "passing words");
        passing<<<1, LANES>>>(memory);
        if (turn % 3 == 0) {
            CHECK(cudaDeviceSynchronize());
        }
        CHECK(cudaFreeHost(memory)); // waits by itself
    }
    CHECK(cudaDeviceSynchronize());
    expect({"passing", "store", 4, "passing"}, rank, "pinned", "passing words", (uint64_t)MANY * LANES);
}

static void open_and_close(const cudaIpcMemHandle_t &handle) {
    for (int turn = 0; turn < MANY; turn++) {
        void *there;
        CHECK(cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess));
        visiting<<<1, LANES>>>((unsigned *)there);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaIpcCloseMemHandle(there));
    }
    expect({"visiting", "store", 4, "visiting"}, 0, "ipc", "visited words", (uint64_t)MANY * LANES);
}

// Freed memory keeps its name, also where the next allocation is at its address.
static void again() {
    static const char *const names[] = {"even words", "odd words"};
    for (int turn = 0; turn < AGAIN; turn++) {
        unsigned *memory = pinned_memory<unsigned>(WHOLE, names[turn % 2]);
        staying<<<1 + turn % 2, LANES>>>(memory);
        CHECK(cudaFreeHost(memory));
    }
    CHECK(cudaDeviceSynchronize());
    expect({"staying", "store", 4, "staying"}, rank, "pinned", names[0], AGAIN / 2 * LANES);
    expect({"staying", "store", 4, "staying"}, rank, "pinned", names[1], AGAIN / 2 * 2 * LANES);
}

// For a while there is nothing remote, so that patches come out; then there is again. The kernel's own memory is counted nowhere.
static void out_and_in() {
    unsigned *own = device_memory<unsigned>(BYTES);
    for (int turn = 0; turn < RETURNS; turn++) {
        unsigned *memory = pinned_memory<unsigned>(BYTES, "returning words");
        returning<<<1, LANES>>>(memory);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaFreeHost(memory));
        for (int wait = 0; wait < WAITS; wait++) {
            returning<<<1, LANES>>>(own);
            CHECK(cudaDeviceSynchronize());
        }
    }
    expect({"returning", "store", 4, "returning"}, rank, "pinned", "returning words", RETURNS * LANES);
}

int main(int count, char **arguments) {
    begin(&count, &arguments);
    unsigned *visited = device_memory<unsigned>(WHOLE);
    cudaIpcMemHandle_t handle;
    if (rank == 0) {
        mpisee_name_memory(visited, WHOLE, "visited words");
        CHECK(cudaIpcGetMemHandle(&handle, visited));
    }
    MPI_Bcast(&handle, sizeof handle, MPI_BYTE, 0, MPI_COMM_WORLD);
    come_and_go();
    again();
    out_and_in();
    if (rank == 1) {
        open_and_close(handle);
    }
    end();
    return 0;
}
