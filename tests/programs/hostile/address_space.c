/* Takes the address space away, once MPI has it all: address_space TROUBLE, with `none`, `limit` (8 GiB for the process
 * from then on), `exhaust` (not a byte more, while COMMS communicators get their first messages, then as before). For one
 * process. Prints the process's size in KiB after MPI_Init, and whether 256 MiB can be had under the limit.
 */
#include "program.h"
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

enum { COMMS = 150, KINDS = 14, ARENA = 64 << 20 };

static long size_in_kib(void) {
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    EXPECT(status);
    while (fgets(line, sizeof line, status)) {
        if (strncmp(line, "VmSize:", 7) == 0) kib = atol(line + 7);
    }
    fclose(status);
    return kib;
}

static void limit(rlim_t most) {
    struct rlimit both;
    EXPECT(getrlimit(RLIMIT_AS, &both) == 0);
    both.rlim_cur = most;
    EXPECT(setrlimit(RLIMIT_AS, &both) == 0);
}

int main(int argc, char **argv) {
    static char out[1 << KINDS];
    static MPI_Comm comms[COMMS];
    int exhaust = argc > 1 && strcmp(argv[1], "exhaust") == 0;
    if (exhaust) {
        /* Memory that MPI needs under the limit comes from memory that the process keeps. */
        EXPECT(mallopt(M_MMAP_THRESHOLD, 2 * ARENA) && mallopt(M_TRIM_THRESHOLD, 2 * ARENA));
        void *arena = malloc(ARENA);
        EXPECT(arena);
        memset(arena, 1, ARENA);
        free(arena);
    }
    begin(&argc, &argv);
    if (rank == 0) printf("VmSize %ld\n", size_in_kib());
    if (argc > 1 && strcmp(argv[1], "limit") == 0) limit((rlim_t)8 << 30);
    void *memory = malloc((size_t)256 << 20);
    if (rank == 0) printf("256 MiB: %s\n", memory ? "ok" : "NO MEMORY");
    fflush(stdout);
    free(memory);
    for (int k = 0; k < COMMS; k++) MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comms[k]);
    if (exhaust) limit(size_in_kib() << 10);
    for (int time = 0; time < 2; time++) {
        for (int k = 0; k < COMMS; k++) {
            for (int kind = 0; kind < KINDS; kind++) MPI_Bcast(out, 1 << kind, MPI_BYTE, 0, comms[k]);
        }
        if (exhaust) limit(RLIM_INFINITY);
    }
    for (int k = 0; k < COMMS; k++) MPI_Comm_free(&comms[k]);
    MPI_Finalize();
    return 0;
}
