/* Each rank's kernels write to memory of its right neighbour by CUDA IPC and read from there, beside a message to it. Two GPUs
 * for all ranks; they, their driver and their kernels are fake, see gpu-tracer/tests/fake. The argument is the image
 * of a module, with its line table. */
#include <fake.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

#define CELLS (1 << 17)
#define ALL 0xffffffffu
#define RANKS 8

static char image[1 << 16];

__attribute__((noinline)) static uint64_t make_cells(int device) {
    uint64_t cells = fake_alloc(1, device, CELLS, 0);
    return cells;
}

static void launch(const char *kernel, uint64_t offset, uint64_t address, uint32_t lanes, uint32_t bytes,
                   uint32_t flags, uint32_t warps) {
    struct fake_access access = {offset, address, lanes, bytes, flags, warps};
    fake_launch(1, 1, 7, kernel, &access, 1);
}

int main(int count, char **arguments) {
    static unsigned char handles[RANKS][64];
    static char out[256], in[256];
    int rank, ranks;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    FILE *file = count > 1 ? fopen(arguments[1], "rb") : NULL;
    size_t bytes = file ? fread(image, 1, sizeof image, file) : 0;
    cuInit(0);
    fake_context(1, rank % 2);
    fake_module(1, 7, image, bytes);
    uint64_t cells = make_cells(rank % 2);
    fake_ipc_get(cells, handles[rank]);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, handles, sizeof handles[0], MPI_BYTE, MPI_COMM_WORLD);

    int right = (rank + 1) % ranks;
    uint64_t theirs = fake_ipc_open(handles[right]);
    uint64_t flag = fake_host_alloc(1, 4096);
    launch("copy", 0x80, theirs, ALL, 8, FAKE_STORE, 5 + rank);
    launch("copy", 0xf0, theirs, ALL, 4, FAKE_LOAD, 2 + rank);
    launch("count", 0x40, flag, 0x7, 4, FAKE_ATOMIC, 1 + rank);
    fake_stream_wait(1, 1);
    MPI_Sendrecv(out, 101 + rank, MPI_CHAR, right, 0, in, sizeof in, MPI_CHAR, (rank + ranks - 1) % ranks, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
