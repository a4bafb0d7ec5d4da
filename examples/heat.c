/* Heat on a plate: the program of the tutorial (docs/start/tutorial.md).
 *
 * The plate is cut into strips of rows, one per rank. A step exchanges border rows with the ranks above
 * and below, adds the heat of the sources, and sums how much has changed.
 *
 * The program has a fault: rank 0 computes the sources of all strips and scatters them, so the other ranks
 * wait. With `balanced`, each rank computes the sources of its own strip.
 *
 *   mpicc -O2 -g examples/heat.c -lm -o heat
 *   mpirun -n 2 heat [balanced]
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 1000, ROWS = 200, STEPS = 100 }; /* rows per rank */

/* Returns the heat that a point gets in a step; the argument counts rows from the top of the plate. */
static double source_at(int row, int column, int step) {
    return 1e-3 * exp(-fabs(sin(row + 0.1 * step))) * cos(0.01 * column);
}

static void compute_sources(double *sources, int first_row, int rows, int step) {
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < COLUMNS; column++)
            sources[row * COLUMNS + column] = source_at(first_row + row, column, step);
}

/* Gives each rank the sources of its strip. */
static void get_sources(double *mine, double *all, int balanced, int step, MPI_Comm plate) {
    int rank, size;
    MPI_Comm_rank(plate, &rank);
    MPI_Comm_size(plate, &size);
    if (balanced) {
        compute_sources(mine, rank * ROWS, ROWS, step);
        return;
    }
    if (rank == 0)
        compute_sources(all, 0, size * ROWS, step);
    MPI_Scatter(all, ROWS * COLUMNS, MPI_DOUBLE, mine, ROWS * COLUMNS, MPI_DOUBLE, 0, plate);
}

/* Fills the row above and the row below the strip. */
static void exchange_borders(double *heat, int above, int below, MPI_Comm plate) {
    double *first = heat + COLUMNS, *last = heat + ROWS * COLUMNS;
    MPI_Sendrecv(first, COLUMNS, MPI_DOUBLE, above, 1, last + COLUMNS, COLUMNS, MPI_DOUBLE, below, 1, plate,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(last, COLUMNS, MPI_DOUBLE, below, 2, heat, COLUMNS, MPI_DOUBLE, above, 2, plate,
                 MPI_STATUS_IGNORE);
}

/* Computes the next state of the strip and returns how much has changed. */
static double update(const double *heat, double *next, const double *sources) {
    double change = 0;
    for (int row = 1; row <= ROWS; row++)
        for (int column = 1; column < COLUMNS - 1; column++) {
            int at = row * COLUMNS + column;
            double mean = 0.25 * (heat[at - 1] + heat[at + 1] + heat[at - COLUMNS] + heat[at + COLUMNS]);
            next[at] = mean + sources[at - COLUMNS];
            change += fabs(next[at] - heat[at]);
        }
    return change;
}

int main(int argc, char **argv) {
    int size, above, below, balanced = argc > 1 && strcmp(argv[1], "balanced") == 0;
    MPI_Comm plate;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){0}, 0, &plate);
    MPI_Comm_set_name(plate, "plate");
    MPI_Cart_shift(plate, 0, 1, &above, &below);

    double *heat = calloc((ROWS + 2) * COLUMNS, sizeof *heat), *next = calloc((ROWS + 2) * COLUMNS, sizeof *next);
    double *sources = malloc(sizeof *sources * ROWS * COLUMNS), *all = malloc(sizeof *all * size * ROWS * COLUMNS);
    double change = 0, start = MPI_Wtime();
    for (int step = 0; step < STEPS; step++) {
        get_sources(sources, all, balanced, step, plate);
        exchange_borders(heat, above, below, plate);
        change = update(heat, next, sources);
        MPI_Allreduce(MPI_IN_PLACE, &change, 1, MPI_DOUBLE, MPI_SUM, plate);
        double *swap = heat;
        heat = next, next = swap;
    }
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("%d steps on %d ranks: %.2f s, change %.6e\n", STEPS, size, MPI_Wtime() - start, change);
    free(heat), free(next), free(sources), free(all);
    MPI_Comm_free(&plate);
    MPI_Finalize();
    return 0;
}
