// Accesses that newer devices have: asynchronous copies to shared memory (sm_80), bulk copies and vectors of atomics (sm_90).
// The second argument says whose memory: ipc, or pinned.
#include "check.h"

static const int BLOCKS = 6, THREADS = 64, BULK = 512;

#define AT (blockIdx.x * blockDim.x + threadIdx.x)

template <int bytes> __device__ void copy_async(const char *from, char *own) {
#if __CUDA_ARCH__ >= 800
    __shared__ __align__(16) char room[THREADS * 16];
    unsigned to = (unsigned)__cvta_generic_to_shared(room + threadIdx.x * bytes);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from + AT * bytes), "n"(bytes));
    asm volatile("cp.async.wait_all;");
    own[AT] = room[threadIdx.x * bytes];
#endif
}

extern "C" __global__ void copy4(const char *p, char *own) { copy_async<4>(p, own); } // @copy4
extern "C" __global__ void copy8(const char *p, char *own) { copy_async<8>(p, own); } // @copy8
extern "C" __global__ void copy16(const char *p, char *own) { copy_async<16>(p, own); } // @copy16

extern "C" __global__ void bulk_load(const char *p, char *own) {
#if __CUDA_ARCH__ >= 900
    __shared__ __align__(16) char room[BULK];
    __shared__ unsigned long long barrier;
    unsigned to = (unsigned)__cvta_generic_to_shared(room), at = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at));
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "n"(BULK));
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(to), "l"(p + blockIdx.x * BULK), "n"(BULK), "r"(at) : "memory"); // @bulk_load
    }
    __syncthreads();
    unsigned is_done = 0;
    while (!is_done) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_done) : "r"(at) : "memory");
    }
    own[AT] = room[threadIdx.x];
#endif
}

__device__ void fill(unsigned *room) {
    for (unsigned at = threadIdx.x; at < BULK / 4; at += blockDim.x) {
        room[at] = at;
    }
    __syncthreads();
}

extern "C" __global__ void bulk_store(char *p, char *) {
#if __CUDA_ARCH__ >= 900
    __shared__ __align__(16) unsigned room[BULK / 4];
    fill(room);
    if (threadIdx.x == 0) {
        unsigned from = (unsigned)__cvta_generic_to_shared(room);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                     ::"l"(p + blockIdx.x * BULK), "r"(from), "n"(BULK) : "memory"); // @bulk_store
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
#endif
}

extern "C" __global__ void bulk_reduce(char *p, char *) {
#if __CUDA_ARCH__ >= 900
    __shared__ __align__(16) unsigned room[BULK / 4];
    fill(room);
    if (threadIdx.x == 0) {
        unsigned from = (unsigned)__cvta_generic_to_shared(room);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;"
                     ::"l"(p + blockIdx.x * BULK), "r"(from), "n"(BULK) : "memory"); // @bulk_reduce
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
#endif
}

extern "C" __global__ void vector16(float4 *p, char *) {
#if __CUDA_ARCH__ >= 900
    atomicAdd(p + AT, make_float4(1, 2, 3, 4)); // @vector16
#endif
}

int main(int count, char **arguments) {
    begin(&count, &arguments);
    bool is_ipc = count > 2 && arguments[2] == std::string("ipc");
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    char *own = device_memory<char>(WHOLE), *cells = device_memory<char>(WHOLE), *target;
    mpisee_name_memory(cells, WHOLE, "cells");
    const char *memory = is_ipc ? "ipc" : "pinned";
    target = is_ipc ? memory_of_other(cells) : pinned_memory<char>(WHOLE, "cells");
    int owner = is_ipc ? 1 - rank : rank;
    const uint64_t lanes = BLOCKS * THREADS;
    if (device.major >= 8) {
        copy4<<<BLOCKS, THREADS>>>(target, own);
        copy8<<<BLOCKS, THREADS>>>(target, own);
        copy16<<<BLOCKS, THREADS>>>(target, own);
        CHECK(cudaDeviceSynchronize());
        expect({"copy4", "load", 4, "copy4"}, owner, memory, "cells", lanes);
        expect({"copy8", "load", 8, "copy8"}, owner, memory, "cells", lanes);
        expect({"copy16", "load", 16, "copy16"}, owner, memory, "cells", lanes);
    }
    if (device.major >= 9) {
        bulk_load<<<BLOCKS, THREADS>>>(target, own);
        bulk_store<<<BLOCKS, THREADS>>>(target, own);
        CHECK(cudaDeviceSynchronize());
        expect({"bulk_load", "load", 0, "bulk_load"}, owner, memory, "cells", BLOCKS, BLOCKS * BULK);
        expect({"bulk_store", "store", 0, "bulk_store"}, owner, memory, "cells", BLOCKS, BLOCKS * BULK);
        // A device need not be able to reduce in memory of the host.
        if (is_ipc) {
            bulk_reduce<<<BLOCKS, THREADS>>>(target, own);
            vector16<<<BLOCKS, THREADS>>>((float4 *)target, own);
            CHECK(cudaDeviceSynchronize());
            expect({"bulk_reduce", "atomic", 0, "bulk_reduce"}, owner, memory, "cells", BLOCKS, BLOCKS * BULK);
            expect({"vector16", "atomic", 16, "vector16"}, owner, memory, "cells", lanes);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_ipc) {
        CHECK(cudaIpcCloseMemHandle(target));
    }
    end();
    return 0;
}
