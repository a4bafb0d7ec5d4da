/* A miniature of a common kind of MPI application, and something to look at with mpisee.
 *
 * Solves the Poisson equation -u_xx - u_yy = f on the unit square, u = 0 on its border, on an n x n grid of
 * points that is cut into blocks, one per process. An iteration solves exactly for one grid line at a time,
 * holding the lines above and below at their old values (line Jacobi):
 *
 *   halo       each block gets its neighbours' border points       Isend, Irecv, Waitall   grid
 *   transpose  blocks of a row of processes become whole lines,
 *              a tridiagonal system each, and back again           Alltoallv               row
 *   residual   now and then: how far is it?                        Allreduce               column, grid
 *
 * f is chosen such that the result is known after any number of iterations (see main), so the program
 * verifies itself, on any number of processes.
 *
 *   mpicc -O2 -Iinclude examples/stencil2d.c -lm -o stencil2d
 *   mpirun -n 4 stencil2d [-n POINTS] [-i ITERATIONS]
 */
#define _XOPEN_SOURCE 700
#include "mpisee.h"
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NORTH, SOUTH, WEST, EAST, SIDES };

/* The part of the grid that a process has, and whom it shares the rest with. */
struct domain {
    MPI_Comm grid, row, column, node; /* row: the processes that share our grid lines; column: our strip */
    int neighbour[SIDES];             /* ranks in grid; MPI_PROC_NULL beyond the border */
    int n;                            /* points in each direction */
    int rows, cols;                   /* of our block */
    int first_row, first_col;         /* its place */
    MPI_Datatype column_type;         /* a column of a field */

    /* The transpose: row communicator's members have the same rows; member k gets some of them whole. */
    int lines;                                                 /* how many of them we get */
    int *block_count, *block_start, *line_count, *line_start; /* for Alltoallv, by member */
    double *pieces, *line;                                     /* room for our lines, and for one */
    double *factor;                                            /* of the tridiagonal elimination */
};

/* Where part k of n things in `parts` parts begins. */
static int first(int n, int parts, int k) { return (int)((long)n * k / parts); }
static int share(int n, int parts, int k) { return first(n, parts, k + 1) - first(n, parts, k); }

/* A field has a border of one point around the block, for the neighbours' values. */
static size_t at(const struct domain *d, int i, int j) { return (size_t)(i + 1) * (d->cols + 2) + (j + 1); }

static double *allocate(size_t count, size_t size) {
    void *room = calloc(count ? count : 1, size);
    if (!room) {
        fprintf(stderr, "stencil2d: no memory for %zu bytes\n", count * size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return room;
}

/* Cuts the grid into blocks and makes a communicator for every group of processes that works together. */
static void create_domain(struct domain *d, int n) {
    int size, rank, dims[2] = {0, 0}, periods[2] = {0, 0}, coords[2], across[2] = {0, 1}, down[2] = {1, 0};
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &d->grid);
    MPI_Comm_rank(d->grid, &rank);
    MPI_Cart_coords(d->grid, rank, 2, coords);
    MPI_Cart_sub(d->grid, across, &d->row);
    MPI_Cart_sub(d->grid, down, &d->column);
    MPI_Comm_split_type(d->grid, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &d->node);
    MPI_Comm_set_name(d->grid, "grid"); /* mpisee shows these names beside its own */
    MPI_Comm_set_name(d->row, "row");
    MPI_Comm_set_name(d->column, "column");
    MPI_Comm_set_name(d->node, "node");
    MPI_Cart_shift(d->grid, 0, 1, &d->neighbour[NORTH], &d->neighbour[SOUTH]);
    MPI_Cart_shift(d->grid, 1, 1, &d->neighbour[WEST], &d->neighbour[EAST]);

    d->n = n;
    d->rows = share(n, dims[0], coords[0]);
    d->cols = share(n, dims[1], coords[1]);
    d->first_row = first(n, dims[0], coords[0]);
    d->first_col = first(n, dims[1], coords[1]);
    MPI_Type_vector(d->rows, 1, d->cols + 2, MPI_DOUBLE, &d->column_type);
    MPI_Type_commit(&d->column_type);

    /* Member k has share(n, members, k) columns of our rows, and gets share(rows, members, k) of the rows. */
    int members = dims[1];
    int *counts = (int *)allocate(4 * (size_t)members, sizeof(int));
    d->block_count = counts, d->block_start = counts + members;
    d->line_count = counts + 2 * members, d->line_start = counts + 3 * members;
    d->lines = share(d->rows, members, coords[1]);
    for (int k = 0; k < members; k++) {
        d->block_count[k] = share(d->rows, members, k) * d->cols;
        d->block_start[k] = first(d->rows, members, k) * d->cols;
        d->line_count[k] = d->lines * share(n, members, k);
        d->line_start[k] = d->lines * first(n, members, k);
    }
    d->pieces = allocate((size_t)d->lines * n, sizeof(double));
    d->line = allocate(n, sizeof(double));
    d->factor = allocate(n, sizeof(double));
    for (int j = 0; j < n; j++) /* the matrix has 4 on the diagonal and -1 beside it */
        d->factor[j] = 1 / (4 - (j ? d->factor[j - 1] : 0));
}

static void free_domain(struct domain *d) {
    free(d->block_count), free(d->pieces), free(d->line), free(d->factor);
    MPI_Type_free(&d->column_type);
    MPI_Comm_free(&d->node);
    MPI_Comm_free(&d->column);
    MPI_Comm_free(&d->row);
    MPI_Comm_free(&d->grid);
}

/* Gets the points beside our block from the neighbours' blocks. */
static void exchange_halo(const struct domain *d, double *u) {
    /* Per side: the first point that goes out, the first that comes in, and how both lie in memory. */
    double *out[SIDES] = {&u[at(d, 0, 0)], &u[at(d, d->rows - 1, 0)], &u[at(d, 0, 0)], &u[at(d, 0, d->cols - 1)]};
    double *in[SIDES] = {&u[at(d, -1, 0)], &u[at(d, d->rows, 0)], &u[at(d, 0, -1)], &u[at(d, 0, d->cols)]};
    MPI_Request requests[2 * SIDES];
    MPI_Status statuses[2 * SIDES];
    for (int side = 0; side < SIDES; side++) {
        int vertical = side == WEST || side == EAST, count = vertical ? 1 : d->cols;
        MPI_Datatype type = vertical ? d->column_type : MPI_DOUBLE;
        /* What goes north arrives from the south: the tag is the direction of travel, opposite is ^ 1. */
        MPI_Irecv(in[side], count, type, d->neighbour[side], side ^ 1, d->grid, &requests[side]);
        MPI_Isend(out[side], count, type, d->neighbour[side], side, d->grid, &requests[SIDES + side]);
    }
    MPI_Waitall(2 * SIDES, requests, statuses);
}

/* Solves the tridiagonal system of each whole line: `block` holds right-hand sides, then solutions. */
static void solve_lines(struct domain *d, double *block) {
    int members, n = d->n;
    MPI_Comm_size(d->row, &members);
    MPI_Alltoallv(block, d->block_count, d->block_start, MPI_DOUBLE, d->pieces, d->line_count, d->line_start,
                  MPI_DOUBLE, d->row);
    for (int l = 0; l < d->lines; l++) {
        double *x = d->line;
        for (int k = 0; k < members; k++) /* a line has come in pieces, one per member */
            for (int j = first(n, members, k), width = share(n, members, k), c = 0; c < width; c++)
                x[j + c] = d->pieces[d->line_start[k] + l * width + c];
        for (int j = 0; j < n; j++)
            x[j] = (x[j] + (j ? x[j - 1] : 0)) * d->factor[j];
        for (int j = n - 2; j >= 0; j--)
            x[j] += d->factor[j] * x[j + 1];
        for (int k = 0; k < members; k++)
            for (int j = first(n, members, k), width = share(n, members, k), c = 0; c < width; c++)
                d->pieces[d->line_start[k] + l * width + c] = x[j + c];
    }
    MPI_Alltoallv(d->pieces, d->line_count, d->line_start, MPI_DOUBLE, block, d->block_count, d->block_start,
                  MPI_DOUBLE, d->row);
}

/* One iteration; `f` is the right-hand side times the square of the distance between points. */
static void iterate(struct domain *d, double *u, const double *f, double *block) {
    for (int i = 0; i < d->rows; i++)
        for (int j = 0; j < d->cols; j++)
            block[(size_t)i * d->cols + j] = f[at(d, i, j)] + u[at(d, i - 1, j)] + u[at(d, i + 1, j)];
    solve_lines(d, block);
    for (int i = 0; i < d->rows; i++)
        for (int j = 0; j < d->cols; j++)
            u[at(d, i, j)] = block[(size_t)i * d->cols + j];
    exchange_halo(d, u);
}

/* The norm of what is left of the equation; `worst_strip` is that of the worst column of blocks. */
static double residual(const struct domain *d, const double *u, const double *f, double *worst_strip) {
    double own = 0, strip, all;
    for (int i = 0; i < d->rows; i++)
        for (int j = 0; j < d->cols; j++) {
            double beside = u[at(d, i - 1, j)] + u[at(d, i + 1, j)] + u[at(d, i, j - 1)] + u[at(d, i, j + 1)];
            double rest = f[at(d, i, j)] - (4 * u[at(d, i, j)] - beside);
            own += rest * rest;
        }
    MPI_Allreduce(&own, &strip, 1, MPI_DOUBLE, MPI_SUM, d->column);
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, d->grid);
    MPI_Allreduce(&strip, worst_strip, 1, MPI_DOUBLE, MPI_MAX, d->grid);
    *worst_strip = sqrt(*worst_strip);
    return sqrt(all);
}

static void read_options(int argc, char **argv, int *n, int *iterations) {
    int option, size, dims[2] = {0, 0};
    while ((option = getopt(argc, argv, "n:i:")) != -1)
        *(option == 'n' ? n : iterations) = option == '?' ? -1 : atoi(optarg);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    if (*n < dims[0] || *iterations < 1 || optind < argc) {
        fprintf(stderr, "usage: stencil2d [-n POINTS] [-i ITERATIONS], on %d processes at least %d points\n", size,
                dims[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

int main(int argc, char **argv) {
    int n = 256, iterations = 100, world_rank, node_size, node_rank;
    struct domain d;
    MPI_Init(&argc, &argv);
    read_options(argc, argv, &n, &iterations);
    create_domain(&d, n);
    size_t points = (size_t)(d.rows + 2) * (d.cols + 2);
    double *u = allocate(points, sizeof(double)), *f = allocate(points, sizeof(double));
    double *block = allocate((size_t)d.rows * d.cols, sizeof(double));

    /* sin(pi x) sin(pi y) is an eigenvector of the discrete operator, with this eigenvalue (times h squared).
       As f, and started from u = 0, it is all that the residual ever consists of, and each iteration
       multiplies the residual by `rate`. */
    double pi = acos(-1), c = cos(pi / (n + 1)), eigenvalue = 4 - 4 * c, rate = c / (2 - c);
    for (int i = 0; i < d.rows; i++)
        for (int j = 0; j < d.cols; j++)
            f[at(&d, i, j)] = eigenvalue * sin(pi * (d.first_row + i + 1) / (n + 1)) *
                              sin(pi * (d.first_col + j + 1) / (n + 1));

    double worst_strip, start = residual(&d, u, f, &worst_strip), now = start, begin = MPI_Wtime();
    for (int k = 1; k <= iterations; k++) {
        mpisee_region_begin("solver"); /* mpisee tells the calls of the two regions apart */
        iterate(&d, u, f, block);
        mpisee_region_end();
        if (k % 10 == 0 || k == iterations) {
            mpisee_region_begin("residual");
            now = residual(&d, u, f, &worst_strip);
            mpisee_region_end();
        }
    }

    /* The slowest process of this node, and how many nodes there are. */
    double seconds = MPI_Wtime() - begin, slowest;
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, d.node);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_rank(d.node, &node_rank);
    MPI_Comm_size(d.node, &node_size);
    int leader = node_rank == 0, nodes;
    MPI_Allreduce(&leader, &nodes, 1, MPI_INT, MPI_SUM, d.grid);

    double expected = pow(rate, iterations), error = fabs(now / start - expected) / expected;
    int correct = error < 1e-6;
    if (world_rank == 0) {
        printf("%d x %d points, %d iterations, %d node%s: %.3f s\n", n, n, iterations, nodes, nodes > 1 ? "s" : "",
               slowest);
        printf("residual %.6e of the first, expected %.6e; worst strip %.1f %% of it\n", now / start, expected,
               100 * worst_strip / now);
        puts(correct ? "correct" : "WRONG");
    }
    free(u), free(f), free(block);
    free_domain(&d);
    MPI_Finalize();
    return correct ? EXIT_SUCCESS : EXIT_FAILURE;
}
