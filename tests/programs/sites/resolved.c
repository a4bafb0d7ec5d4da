/* Calls MPI by inlined functions, by a tail call, and, with the path of sites/resolved_library as argument, in a library that is opened as
 * it runs. Each kind of call is at one place; the test finds the places by the remarks. With -O2. */
#include "../program.h"
#include <dlfcn.h>
#include <unistd.h>

static inline __attribute__((always_inline)) void innermost(double *sum) {
    double one = 1;
    MPI_Allreduce(&one, sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* innermost calls */
}

static inline __attribute__((always_inline)) void middle(double *sum) {
    innermost(sum); /* middle calls */
    *sum += 1;
}

__attribute__((noinline)) static double outermost(void) {
    double sum = 0;
    middle(&sum); /* outermost calls */
    return sum + size;
}

/* Its frame is gone when MPI is called: the call returns to its caller. */
__attribute__((noinline)) static int tail(char *word) {
    return MPI_Bcast(word, 8, MPI_BYTE, 0, MPI_COMM_WORLD);
}

__attribute__((noinline)) static int calls_tail(void) {
    char word[8] = {0};
    int code = tail(word); /* calls_tail calls */
    return code + word[0];
}

/* Rank 1 comes late, so that the calls of rank 0 are slow. */
static void come_late(void) {
    if (rank == 1) usleep(20 * 1000);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (int time = 0; time < 10; time++) {
        come_late();
        EXPECT(outermost() == 2 * size + 1);
        EXPECT(calls_tail() == MPI_SUCCESS);
    }
    if (argc > 1) {
        void *library = dlopen(argv[1], RTLD_NOW);
        EXPECT(library != NULL);
        int (*gather)(void) = (int (*)(void))dlsym(library, "gather_in_library");
        EXPECT(gather != NULL);
        for (int time = 0; time < 10; time++) {
            come_late();
            EXPECT(gather() == size * (size - 1) / 2); /* main calls the library */
        }
        EXPECT(dlclose(library) == 0);
    }
    return MPI_Finalize();
}
