// What making a communicator takes outside of MPI: the time in MPI_Comm_dup and MPI_Comm_split
// without that in their PMPI_ functions, which tools/overhead/inside.c takes, preloaded behind
// libmpisee.so. Printed by rank 0: the median of `creation CALLS` on each rank, of these the median
// over ranks. With MPICH:
//
//   mpicc.mpich -O2 tools/overhead/creation.c -o creation && mpicc.mpich -O2 -shared -fPIC
//   tools/overhead/inside.c -o inside.so mpirun.mpich -n 2 -genv LD_PRELOAD
//   "$PWD/target/dist/lib/mpisee/mpich-4.0/libmpisee.so:$PWD/inside.so" ./creation 2000

#define _GNU_SOURCE
#include "tick.h"
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

static double ns_per_tick(void) {
    double begin_s = MPI_Wtime();
    unsigned long long begin = tick();
    while (MPI_Wtime() - begin_s < 0.05) {}
    return 1e9 * (MPI_Wtime() - begin_s) / (double)(tick() - begin);
}

int main(int argc, char **argv) {
    int rank, size, calls = argc > 1 ? atoi(argv[1]) : 1000;
    if (calls < 1) return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const unsigned long long *inside = dlsym(RTLD_DEFAULT, "inside_ticks");
    double *ns = malloc((size_t)calls * sizeof *ns), *medians = malloc((size_t)size * sizeof *medians);
    if (inside == NULL || ns == NULL || medians == NULL) {
        fprintf(stderr, "creation: tools/overhead/inside.c is not preloaded, or there is no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    double scale = ns_per_tick();
    for (int splits = 0; splits < 2; splits++) {
        for (int call = 0; call < calls; call++) {
            MPI_Comm made;
            unsigned long long before = *inside, begin = tick();
            if (splits) MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &made);
            else MPI_Comm_dup(MPI_COMM_WORLD, &made);
            ns[call] = scale * ((double)(tick() - begin) - (double)(*inside - before));
            MPI_Comm_free(&made);
        }
        double own = median(ns, calls);
        MPI_Gather(&own, 1, MPI_DOUBLE, medians, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (rank == 0) printf("%s\t%.0f ns\n", splits ? "MPI_Comm_split" : "MPI_Comm_dup", median(medians, size));
    }
    MPI_Finalize();
    return 0;
}
