/* A program with functions of its own that are called like functions of the C library, but for those that ISO C reserves,
 * which the compiler is given as OWN(name) OWN(name) ... To the profiler they are none of its business: each ends the program
 * if it is called from there. For MPI and its libraries they do what the C library's do. Right: each rank prints "ok". */
#define _GNU_SOURCE
#include "common.h"
#include <dlfcn.h>

/* Where the C library has no such function, nobody calls it. */
static void *next_of(const char *name, void *caller) {
    Dl_info from;
    if (dladdr(caller, &from) && from.dli_fname && strstr(from.dli_fname, "libmpisee.so")) {
        fprintf(stderr, "the profiler calls the program's %s()\n", name);
        abort();
    }
    return dlsym(RTLD_NEXT, name);
}

/* The names in C are others, as the headers declare these functions. */
#define OWN(name)                                                                                                 \
    long own_##name(long, long, long, long, long, long, long) __asm__(#name);                                     \
    long own_##name(long a, long b, long c, long d, long e, long f, long g) {                                     \
        static long (*next)(long, long, long, long, long, long, long);                                            \
        *(void **)&next = next_of(#name, __builtin_return_address(0));                                            \
        return next(a, b, c, d, e, f, g);                                                                         \
    }
OWN_NAMES

double own_hypot(double, double) __asm__("hypot");
double own_hypot(double a, double b) {
    static double (*next)(double, double);
    *(void **)&next = next_of("hypot", __builtin_return_address(0));
    return next(a, b);
}

int main(int argc, char **argv) {
    MPI_Comm comm;
    int rank, size, in, out = 1;
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, 0, &in, 1, MPI_INT, (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
    MPI_Pcontrol(1, "region");
    MPI_Allreduce(&out, &in, 1, MPI_INT, MPI_SUM, comm);
    MPI_Comm_free(&comm);
    ok(rank);
    MPI_Finalize();
    return 0;
}
