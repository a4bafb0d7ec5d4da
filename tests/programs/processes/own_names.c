/* A plugin for host.c whose own functions have names that MPI libraries give to Fortran, and which registers them
 * for others to call, as Rmpi does with R. */
#include <mpi.h>
#include <stdio.h>

int run(void);
int mpi_allreduce(const int *values, int count);
int mpi_init(int *value);
int MPI_BCAST(int root);

int mpi_allreduce(const int *values, int count) {
    int sum = 0;
    for (int at = 0; at < count; at++) sum += values[at];
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* Another field's mpi: integers of multiple precision. */
int mpi_init(int *value) { return *value = 0; }

int MPI_BCAST(int root) {
    unsigned char bytes[389] = {0};
    return MPI_Bcast(bytes, sizeof bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

/* Addresses that the loader fills in. */
static struct {
    int (*sum)(const int *, int);
    int (*zero)(int *);
    int (*bcast)(int);
} registered = {mpi_allreduce, mpi_init, MPI_BCAST};

int run(void) {
    int values[] = {1, 2, 4}, number = 7, size;
    MPI_Init(NULL, NULL);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int is_right = registered.zero(&number) == 0 && number == 0;
    is_right &= registered.sum(values, 3) == 7 * size && registered.bcast(0) == MPI_SUCCESS;
    MPI_Finalize();
    if (!is_right) fprintf(stderr, "the functions of another were called\n");
    return is_right ? 0 : 1;
}
