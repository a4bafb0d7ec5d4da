// Memory of NVSHMEM: each PE writes to and reads from that of the other, by NVSHMEM's own functions and by pointers. The second
// argument says as what that memory is mapped: `imported`, or `ipc` with NVSHMEM_DISABLE_CUDA_VMM. Kernels of NVSHMEM itself, in
// which the PEs wait for each other, make an unpredictable number of accesses; those that are to count begin with `shmem_`.
#include "check.h"

#include <nvshmem.h>
#include <nvshmemx.h>

static const int LANES = 96;

extern "C" __global__ void shmem_put(int *words, int pe) {
    nvshmem_int_p(words + blockIdx.x * blockDim.x + threadIdx.x, 1, pe); // @put
}

extern "C" __global__ void shmem_get(const int *words, int *into, int pe) {
    into[threadIdx.x] = nvshmem_int_g(words + threadIdx.x, pe); // @get
}

extern "C" __global__ void shmem_wide(double *words, int pe) {
    nvshmem_double_p(words + threadIdx.x, 1.0, pe); // @wide
}

extern "C" __global__ void shmem_direct(int *there) {
    ((volatile int *)there)[threadIdx.x] = 1; // @direct
}

extern "C" __global__ void shmem_pointer(int *words, int pe) {
    volatile int *there = (volatile int *)nvshmem_ptr(words, pe);
    there[threadIdx.x] = 1; // @pointer
}

// Needs no other launcher than that of MPI, whichever that is.
static void begin_nvshmem() {
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    nvshmemx_init_attr_t how = NVSHMEMX_INIT_ATTR_INITIALIZER;
    if (rank == 0 && nvshmemx_get_uniqueid(&id) != 0) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (nvshmemx_set_attr_uniqueid_args(rank, ranks, &id, &how) != 0 ||
        nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &how) != 0) {
        fprintf(stderr, "NVSHMEM does not begin\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void ran(const char *kernel, const char *kind, int width, const char *line, const char *memory, uint64_t accesses) {
    CHECK(cudaDeviceSynchronize());
    expect({kernel, kind, width, line}, 1 - rank, memory, "symmetric words", accesses);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int count, char **arguments) {
    begin(&count, &arguments);
    const char *memory = count > 2 ? arguments[2] : "imported";
    begin_nvshmem();
    int *words = (int *)nvshmem_malloc(WHOLE), *into = device_memory<int>(WHOLE), other = 1 - nvshmem_my_pe();
    void *there = words ? nvshmem_ptr(words, other) : nullptr;
    if (!there || nvshmem_my_pe() != rank) {
        fprintf(stderr, "NVSHMEM gives no memory of the other PE\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    mpisee_name_memory(words, WHOLE, "symmetric words");
    MPI_Barrier(MPI_COMM_WORLD);
    shmem_put<<<1, LANES>>>(words, rank); // its own: counted nowhere
    shmem_put<<<3, LANES>>>(words, other);
    ran("shmem_put", "store", 4, "put", memory, 3 * LANES);
    shmem_get<<<1, LANES>>>(words, into, other);
    ran("shmem_get", "load", 4, "get", memory, LANES);
    shmem_wide<<<1, LANES / 3>>>((double *)words, other);
    ran("shmem_wide", "store", 8, "wide", memory, LANES / 3);
    shmem_direct<<<1, LANES / 2>>>((int *)there);
    ran("shmem_direct", "store", 4, "direct", memory, LANES / 2);
    shmem_pointer<<<1, LANES / 4>>>(words, other);
    ran("shmem_pointer", "store", 4, "pointer", memory, LANES / 4);
    nvshmem_free(words);
    nvshmem_finalize();
    end();
    return 0;
}
