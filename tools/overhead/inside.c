// The time in PMPI_Comm_dup and PMPI_Comm_split, for tools/overhead/creation.c. Preloaded behind
// libmpisee.so.

#define _GNU_SOURCE
#include "tick.h"
#include <dlfcn.h>
#include <mpi.h>

unsigned long long inside_ticks;

#define TIMED(FUNCTION, PARAMETERS, ...)                                                            \
    int FUNCTION PARAMETERS {                                                                       \
        static __typeof__(&FUNCTION) next;                                                          \
        if (!next) next = (__typeof__(&FUNCTION))dlsym(RTLD_NEXT, #FUNCTION);                       \
        unsigned long long begin = tick();                                                          \
        int code = next(__VA_ARGS__);                                                               \
        inside_ticks += tick() - begin;                                                             \
        return code;                                                                                \
    }

TIMED(PMPI_Comm_dup, (MPI_Comm comm, MPI_Comm *made), comm, made)
TIMED(PMPI_Comm_split, (MPI_Comm comm, int colour, int key, MPI_Comm *made), comm, colour, key, made)
