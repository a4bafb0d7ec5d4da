/* A program that limits its own address space after MPI_Init, to 8 GiB, and allocates 256 MiB. Batch systems that look
 * at the virtual size do the like.
 * Right: "256 MiB: ok", "grew below 4 GiB". */
#include "common.h"
#include <sys/resource.h>

/* KiB of address space. */
static long virtual_size(void) {
    char line[256];
    long size = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmSize: %ld", &size);
    if (status) fclose(status);
    return size;
}

int main(int argc, char **argv) {
    struct rlimit limit;
    watchdog();
    long before = virtual_size();
    MPI_Init(&argc, &argv);
    long grown = virtual_size() - before;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = (rlim_t)8 << 30;
    if (setrlimit(RLIMIT_AS, &limit) != 0) perror("setrlimit");
    void *volatile memory = malloc((size_t)256 << 20);
    printf("256 MiB: %s\n", memory ? "ok" : "NO MEMORY");
    puts(grown < 4L << 20 ? "grew below 4 GiB" : "grew by 4 GiB or more");
    fprintf(stderr, "grew by %ld KiB\n", grown);
    fflush(stdout);
    free(memory);
    MPI_Finalize();
    return 0;
}
