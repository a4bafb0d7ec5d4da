/* A program with an MPI of its own, as if that were linked statically. It runs for as many seconds as its argument says. */
#include <stdlib.h>
#include <unistd.h>

int PMPI_Init(int *argc, char ***argv) { return !argc || !argv; }

int main(int argc, char **argv) {
    sleep(argc > 1 ? (unsigned)atoi(argv[1]) : 0);
    return PMPI_Init(&argc, &argv);
}
