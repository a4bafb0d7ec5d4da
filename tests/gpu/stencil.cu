// A stencil over two ranks, rows above on rank 0 and below on rank 1: each reads the row next to its own from the memory of
// the other, by CUDA IPC.
#include "check.h"

static const int COLUMNS = 512, ROWS = 256, STEPS = 10;

extern "C" __global__ void relax(const double *cells, const double *ghost_row, int ghost_at, double *next) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column == 0 || column == COLUMNS - 1) {
        return;
    }
    const double *above = cells + (row - 1) * COLUMNS, *below = cells + (row + 1) * COLUMNS;
    double sum = cells[row * COLUMNS + column - 1] + cells[row * COLUMNS + column + 1];
    sum += row > 0 ? above[column] : 0;
    sum += row < ROWS - 1 ? below[column] : 0;
    if (row == ghost_at) {
        sum += ghost_row[column]; // @ghost
    }
    next[row * COLUMNS + column] = sum / 4;
}

static double *make_grid() { return device_memory<double>(WHOLE); }

int main(int count, char **arguments) {
    begin(&count, &arguments);
    static const char *const names[] = {"upper half", "lower half"};
    double *cells = make_grid(), *next = make_grid();
    mpisee_name_memory(cells, WHOLE, names[rank]);
    double *theirs = memory_of_other(cells);
    int own_at = rank == 0 ? ROWS - 1 : 0, their_at = rank == 0 ? 0 : ROWS - 1;
    dim3 blocks(COLUMNS / 128, ROWS);
    for (int step = 0; step < STEPS; step++) {
        relax<<<blocks, 128>>>(cells, theirs + their_at * COLUMNS, own_at, next);
        CHECK(cudaMemcpy(cells, next, (size_t)ROWS * COLUMNS * sizeof(double), cudaMemcpyDeviceToDevice));
        CHECK(cudaDeviceSynchronize());
        double residual = step, largest;
        MPI_Allreduce(&residual, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    expect({"relax", "load", 8, "ghost"}, 1 - rank, "ipc", names[1 - rank], (uint64_t)STEPS * (COLUMNS - 2));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(cudaIpcCloseMemHandle(theirs));
    end();
    return 0;
}
