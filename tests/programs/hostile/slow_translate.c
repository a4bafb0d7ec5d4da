/* Counts the comparisons that MPI_Group_translate_ranks of Open MPI makes: for each rank it goes through the target group
 * until it finds the process (ompi/group/group.c). A shared library, preloaded after libmpisee.so, which looks up
 * PMPI_* in what comes after itself:
 *   mpicc -shared -fPIC slow_translate.c -o slow_translate.so
 *   LD_PRELOAD=$PWD/slow_translate.so mpirun -n 128 mpisee ./many_members dup      (mpisee keeps what is preloaded)
 * A program reads the count by translate_comparisons() (many_members.c prints it for each kind of communicator); in
 * the folder TRANSLATE_COUNTS each rank leaves a file with its total at the end: comparisons, ranks, calls.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned long long comparisons, ranks, calls;

unsigned long long translate_comparisons(void) { return comparisons; }

int PMPI_Group_translate_ranks(MPI_Group from, int n, const int *asked, MPI_Group to, int *found) {
    static int (*real)(MPI_Group, int, const int *, MPI_Group, int *);
    int size = 0;
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Group_translate_ranks");
    int code = real(from, n, asked, to, found);
    PMPI_Group_size(to, &size);
    for (int i = 0; i < n; i++) {
        if (asked[i] == MPI_PROC_NULL) continue;
        comparisons += found[i] == MPI_UNDEFINED ? size : found[i] + 1;
    }
    ranks += n;
    calls++;
    return code;
}

static __attribute__((destructor)) void leave_counts(void) {
    const char *folder = getenv("TRANSLATE_COUNTS"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    char path[4096];
    if (!rank) rank = getenv("PMI_RANK");
    if (!folder || !rank || !calls) return;
    snprintf(path, sizeof path, "%s/translate.%s", folder, rank);
    FILE *file = fopen(path, "w");
    if (!file) return;
    fprintf(file, "%llu %llu %llu\n", comparisons, ranks, calls);
    fclose(file);
}
