/* A program with GCC's AddressSanitizer, whose library refuses to start unless it is the first in the process.
 * Right: "ran"; one MPI_Barrier. */
#include "common.h"

/* MPI libraries leave memory behind. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

int main(int argc, char **argv) {
    watchdog();
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    puts("ran");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
