/* The communication of a spectral solver, as NPB's FT has it in its two-dimensional layout: a three-dimensional FFT of a grid of
 * GRID^3 complex numbers, forth and back STEPS times, whose ranks are rows and columns of a grid. Between transforms along one axis
 * and the next, the axes change places by MPI_Alltoall within rows or columns; each step ends with a checksum by MPI_Allreduce.
 * Checks that the data are the same in the end. Arguments: GRID, a power of two, and STEPS. */
#include <complex.h>
#include <math.h>

#include "program.h"

typedef double complex number;

static int grid, rows, columns, local;
static number *data, *packed;

/* A transform of `grid` numbers in place; `sign` is -1 there and 1 back. */
static void transform_line(number *line, int sign) {
    for (int at = 1, reversed = 0; at < grid; at++) {
        int bit = grid >> 1;
        for (; reversed & bit; bit >>= 1) reversed ^= bit;
        reversed |= bit;
        if (at < reversed) {
            number other = line[at];
            line[at] = line[reversed];
            line[reversed] = other;
        }
    }
    for (int length = 2; length <= grid; length *= 2) {
        number step = cexp(sign * 2 * acos(-1) / length * I);
        for (int begin = 0; begin < grid; begin += length) {
            number factor = 1;
            for (int at = begin; at < begin + length / 2; at++) {
                number even = line[at], odd = factor * line[at + length / 2];
                line[at] = even + odd;
                line[at + length / 2] = even - odd;
                factor *= step;
            }
        }
    }
}

static void transform_lines(int sign) {
    for (int at = 0; at < local; at += grid) transform_line(data + at, sign);
}

/* The axis of which this rank has `part` of `grid` places, as the ranks of `comm` have the others, and the last axis, which it has
 * as a whole, change places. The first axis has `first` places. */
static void exchange(MPI_Comm comm, int first, int part) {
    int block = first * part * part, at = 0;
    for (int peer = 0; peer * part < grid; peer++)
        for (int i = 0; i < first; i++)
            for (int j = 0; j < part; j++)
                for (int k = 0; k < part; k++) packed[at++] = data[(i * part + j) * grid + peer * part + k];
    MPI_Alltoall(packed, block, MPI_C_DOUBLE_COMPLEX, data, block, MPI_C_DOUBLE_COMPLEX, comm);
    memcpy(packed, data, local * sizeof *data);
    at = 0;
    for (int peer = 0; peer * part < grid; peer++)
        for (int i = 0; i < first; i++)
            for (int j = 0; j < part; j++)
                for (int k = 0; k < part; k++) data[(i * part + k) * grid + peer * part + j] = packed[at++];
}

/* The first two axes change places, which this rank has `first` and `second` places of. */
static void turn(int first, int second) {
    memcpy(packed, data, local * sizeof *data);
    for (int i = 0; i < first; i++)
        for (int j = 0; j < second; j++)
            memcpy(data + (j * first + i) * grid, packed + (i * second + j) * grid, grid * sizeof *data);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    grid = atoi(argv[1]);
    int sides[2] = {0, 0};
    MPI_Dims_create(size, 2, sides);
    rows = sides[0], columns = sides[1];
    EXPECT((grid & (grid - 1)) == 0 && grid % rows == 0 && grid % columns == 0);
    MPI_Comm row, column;
    MPI_Comm_split(MPI_COMM_WORLD, rank / columns, rank, &row);
    MPI_Comm_split(MPI_COMM_WORLD, rank % columns, rank, &column);
    int first = grid / rows, second = grid / columns;
    local = first * second * grid;
    data = malloc(local * sizeof *data);
    packed = malloc(local * sizeof *data);
    for (int at = 0; at < local; at++) data[at] = sin(rank + 0.001 * at) + cos(at) * I;
    for (int step = 0; step < atoi(argv[2]); step++) {
        transform_lines(-1);
        exchange(row, first, second);
        transform_lines(-1);
        turn(first, second);
        exchange(column, second, first);
        transform_lines(-1);
        number sum[1] = {data[0]}, total[1];
        MPI_Allreduce(sum, total, 1, MPI_C_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
        transform_lines(1);
        exchange(column, second, first);
        turn(second, first);
        transform_lines(1);
        exchange(row, first, second);
        transform_lines(1);
        for (int at = 0; at < local; at++) data[at] /= pow(grid, 3);
    }
    for (int at = 0; at < local; at++) EXPECT(cabs(data[at] - (sin(rank + 0.001 * at) + cos(at) * I)) < 1e-9);
    MPI_Comm_free(&row);
    MPI_Comm_free(&column);
    MPI_Finalize();
    return 0;
}
