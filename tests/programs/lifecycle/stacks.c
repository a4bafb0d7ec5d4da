/* Stays where it is until there is a file "go", on 4 ranks: 0 and 1 in an Allreduce, below step and solve, 2 in a Recv, below
 * write_results, 3 in no call. With an argument the Allreduce is made in a library that is opened: the argument. */
#include "meet.h"
#include <dlfcn.h>

static double in, out;

/* Inlined. */
static inline void solve(void) {
    MPI_Allreduce(&out, &in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* solve calls */
}

__attribute__((noinline)) static void step(const char *library) {
    if (library == NULL) {
        solve();
    } else {
        void *opened = dlopen(library, RTLD_NOW);
        EXPECT(opened != NULL);
        void (*reduce)(double *, double *) = (void (*)(double *, double *))dlsym(opened, "reduce_in_library");
        EXPECT(reduce != NULL);
        reduce(&out, &in);
    }
    EXPECT(in == 0);
}

__attribute__((noinline)) static void write_results(void) {
    int got = 0;
    MPI_Recv(&got, 1, MPI_INT, 3, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* write_results calls */
    EXPECT(got == 78);
}

int main(int argc, char **argv) {
    int sent = 78;
    begin(&argc, &argv);
    EXPECT(size == 4);
    arrive(rank);
    if (rank == 2) write_results();
    if (rank == 3) {
        while (access("go", F_OK) != 0) usleep(1000);
        MPI_Send(&sent, 1, MPI_INT, 2, 77, MPI_COMM_WORLD);
    }
    step(argc > 1 ? argv[1] : NULL); /* main calls step */
    MPI_Finalize();
    return 0;
}
