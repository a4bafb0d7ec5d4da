/* Rank 1 makes a part of its calls by another way than the others, by the argument:
 *   init      PMPI_Init_thread, but MPI_Finalize
 *   finalize  MPI_Init, but PMPI_Finalize
 *   split     PMPI_Comm_split for one of the communicators
 *   dlsym     MPI_Comm_dup by the address that dlsym has for libmpi itself, for one of the communicators
 * All use the communicators alike.
 * Right: all print "ok"; the ranks other than 1 have in the profile one call each of MPI_Comm_split, MPI_Comm_dup twice
 * on W, and one MPI_Barrier on each communicator made. */
#define _GNU_SOURCE
#include "common.h"
#include <dlfcn.h>

typedef int dup_function(MPI_Comm, MPI_Comm *);

static dup_function *libmpi_dup(void) {
    Dl_info info;
    if (!dladdr((void *)(size_t)PMPI_Comm_dup, &info)) return NULL;
    void *libmpi = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return libmpi ? (dup_function *)(size_t)dlsym(libmpi, "MPI_Comm_dup") : NULL;
}

int main(int argc, char **argv) {
    MPI_Comm comms[3];
    int rank, size, provided;
    int is_one = launched_rank() == 1;
    watchdog();
    if (is_one && is(argc, argv, "init")) PMPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
    else MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (is_one && is(argc, argv, "split")) PMPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[0]);
    else MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[0]);
    dup_function *other_way = is_one && is(argc, argv, "dlsym") ? libmpi_dup() : NULL;
    if (other_way) other_way(MPI_COMM_WORLD, &comms[1]);
    else MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]);
    for (int i = 0; i < 3; i++) MPI_Barrier(comms[i]);
    for (int i = 0; i < 3; i++) MPI_Comm_free(&comms[i]);
    ok(rank);
    if (is_one && is(argc, argv, "finalize")) PMPI_Finalize();
    else MPI_Finalize();
    return 0;
}
