// Kernels that make known numbers of accesses of each width and kind, to own memory, to memory of the other rank by CUDA IPC,
// and to the host: pinned, registered and managed. The second argument is the number of blocks.
#include "check.h"

static const int THREADS = 96, TURNS = 7;
static const size_t BYTES = 4 << 20;

#define AT (blockIdx.x * blockDim.x + threadIdx.x)
#define LOADS(name, type) extern "C" __global__ void name(type *p, type *own) { own[AT] = ((volatile type *)p)[AT]; }
#define STORES(name, type) extern "C" __global__ void name(type *p, type *) { ((volatile type *)p)[AT] = (type)threadIdx.x; }

LOADS(load1, unsigned char)       // @load1
LOADS(load2, unsigned short)      // @load2
LOADS(load4, unsigned)            // @load4
LOADS(load8, unsigned long long)  // @load8
STORES(store1, unsigned char)      // @store1
STORES(store2, unsigned short)     // @store2
STORES(store4, unsigned)           // @store4
STORES(store8, unsigned long long) // @store8

extern "C" __global__ void load16(uint4 *p, uint4 *own) {
    own[AT] = __ldcv(p + AT); // @load16
}

extern "C" __global__ void store16(uint4 *p, uint4 *) {
    p[AT] = make_uint4(1, 2, 3, threadIdx.x); // @store16
}

// Through the cache for what is never written.
extern "C" __global__ void constant4(unsigned *p, unsigned *own) {
    own[AT] = __ldg(p + AT); // @constant4
}

// The result is used, so that the compiler makes no reduction of it.
extern "C" __global__ void atomic4(unsigned *p, unsigned *own) {
    own[AT] = atomicAdd(p + AT, 1); // @atomic4
}

extern "C" __global__ void exchange8(unsigned long long *p, unsigned long long *own) {
    own[AT] = atomicCAS(p + AT, 0ull, 5ull); // @exchange8
}

extern "C" __global__ void system4(unsigned *p, unsigned *own) {
    own[AT] = atomicAdd_system(p + AT, 1); // @system4
}

extern "C" __global__ void reduce8(unsigned long long *p, unsigned long long *) {
    atomicAdd(p + AT, 1ull); // @reduce8
}

extern "C" __global__ void add4(float *p, float *) {
    atomicAdd(p + AT, 1.5f); // @add4
}

// Every second lane.
extern "C" __global__ void odd4(unsigned *p, unsigned *) {
    if (threadIdx.x & 1) {
        ((volatile unsigned *)p)[AT] = 1; // @odd4
    }
}

extern "C" __global__ void turns4(unsigned *p, unsigned *) {
#pragma unroll 1
    for (int turn = 0; turn < TURNS; turn++) {
        ((volatile unsigned *)p)[AT] = turn; // @turns4
    }
}

__device__ __noinline__ unsigned called(const unsigned *p) {
    return *(const volatile unsigned *)p; // @called4
}

extern "C" __global__ void calls4(unsigned *p, unsigned *own) {
    own[AT] = called(p + AT);
}

// To shared memory, by the same instructions as to global.
extern "C" __global__ void shared4(unsigned *, unsigned *own) {
    __shared__ unsigned words[THREADS];
    volatile unsigned *somewhere = own ? words : own;
    somewhere[threadIdx.x] = threadIdx.x;
    __syncthreads();
    own[AT] = somewhere[THREADS - 1 - threadIdx.x];
}

// One instruction, and lanes that access two allocations by turns.
extern "C" __global__ void both4(unsigned *p, unsigned *other) {
    ((volatile unsigned *)(threadIdx.x & 1 ? p : other))[AT] = 1; // @both4
}

static const Access KINDS[] = {
    {"load1", "load", 1, "load1"},         {"load2", "load", 2, "load2"},       {"load4", "load", 4, "load4"},
    {"load8", "load", 8, "load8"},         {"load16", "load", 16, "load16"},    {"store1", "store", 1, "store1"},
    {"store2", "store", 2, "store2"},      {"store4", "store", 4, "store4"},    {"store8", "store", 8, "store8"},
    {"store16", "store", 16, "store16"},   {"constant4", "load", 4, "constant4"}, {"atomic4", "atomic", 4, "atomic4"},
    {"exchange8", "atomic", 8, "exchange8"}, {"system4", "atomic", 4, "system4"}, {"reduce8", "atomic", 8, "reduce8"},
    {"add4", "atomic", 4, "add4"},     {"odd4", "store", 4, "odd4"},        {"turns4", "store", 4, "turns4"},
    {"calls4", "load", 4, "called4"},
};

// Each rank has another number of blocks.
static unsigned blocks;

// Launches all kernels; `memory` is null where nothing of it is to be counted.
static void everything(char *target, char *own, int owner, const char *memory, const char *object) {
#define LAUNCH(kernel, type) kernel<<<blocks, THREADS>>>((type *)target, (type *)own)
    LAUNCH(load1, unsigned char);
    LAUNCH(load2, unsigned short);
    LAUNCH(load4, unsigned);
    LAUNCH(load8, unsigned long long);
    LAUNCH(load16, uint4);
    LAUNCH(store1, unsigned char);
    LAUNCH(store2, unsigned short);
    LAUNCH(store4, unsigned);
    LAUNCH(store8, unsigned long long);
    LAUNCH(store16, uint4);
    LAUNCH(constant4, unsigned);
    LAUNCH(atomic4, unsigned);
    LAUNCH(exchange8, unsigned long long);
    LAUNCH(system4, unsigned);
    LAUNCH(reduce8, unsigned long long);
    LAUNCH(add4, float);
    LAUNCH(odd4, unsigned);
    LAUNCH(turns4, unsigned);
    LAUNCH(calls4, unsigned);
    LAUNCH(shared4, unsigned);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    for (const Access &kind : KINDS) {
        uint64_t lanes = (uint64_t)blocks * THREADS;
        bool is_odd = kind.line == std::string("odd4"), turns = kind.line == std::string("turns4");
        if (memory) {
            expect(kind, owner, memory, object, is_odd ? lanes / 2 : turns ? lanes * TURNS : lanes);
        }
    }
}

// Memory without a name: identified by this call.
static __attribute__((noinline)) unsigned *make_unnamed() {
    void *memory;
    CHECK(cudaHostAlloc(&memory, BYTES, cudaHostAllocDefault));
    return (unsigned *)memory;
}

int main(int count, char **arguments) {
    begin(&count, &arguments);
    blocks = (count > 2 ? (unsigned)atoi(arguments[2]) : 5) + 2 * (unsigned)rank;
    if (blocks * THREADS * sizeof(uint4) > BYTES) {
        fprintf(stderr, "%u blocks do not fit into %zu bytes\n", blocks, BYTES);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    char *own = device_memory<char>(BYTES), *more = device_memory<char>(BYTES);
    everything(more, own, 0, nullptr, "");

    char *cells = device_memory<char>(WHOLE);
    const char *names[] = {"ghost cells of 0", "ghost cells of 1"};
    mpisee_name_memory(cells, WHOLE, names[rank]);
    char *theirs = memory_of_other(cells);
    everything(theirs, own, 1 - rank, "ipc", names[1 - rank]);

    char *pinned = pinned_memory<char>(BYTES, "pinned words");
    everything(pinned, own, rank, "pinned", "pinned words");

    char *registered = (char *)aligned_alloc(4096, BYTES), *mapped;
    CHECK(cudaHostRegister(registered, BYTES, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer((void **)&mapped, registered, 0));
    mpisee_name_memory(registered, BYTES, "registered words");
    everything(mapped, own, rank, "registered", "registered words");

    char *managed;
    CHECK(cudaMallocManaged(&managed, BYTES));
    mpisee_name_memory(managed, BYTES, "managed words");
    everything(managed, own, rank, "managed", "managed words");

    both4<<<blocks, THREADS>>>((unsigned *)theirs, (unsigned *)pinned);
    CHECK(cudaDeviceSynchronize());
    Access both = {"both4", "store", 4, "both4"};
    expect(both, 1 - rank, "ipc", names[1 - rank], blocks * THREADS / 2);
    expect(both, rank, "pinned", "pinned words", blocks * THREADS / 2);

    unsigned *unnamed = make_unnamed();
    store4<<<blocks, THREADS>>>(unnamed, nullptr);
    CHECK(cudaDeviceSynchronize());
    expect({"store4", "store", 4, "store4"}, rank, "pinned", "*", blocks * THREADS);

    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(cudaIpcCloseMemHandle(theirs));
    end();
    return 0;
}
