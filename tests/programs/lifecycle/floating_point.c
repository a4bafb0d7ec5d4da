/* The floating-point environment around MPI. Prints what there is of it that the program has chosen, and which exceptions
 * were raised between, by MPI alone. With the argument "trap" inexact results trap while the program communicates, and
 * with "finalize" in MPI_Finalize, too, where not every MPI can be used so. */
#define _GNU_SOURCE
#include "program.h"
#include <fenv.h>

static void tell(const char *when) {
    if (rank == 0) printf("%s: rounds %#x, raised %#x, traps %#x\n", when, fegetround(), fetestexcept(FE_ALL_EXCEPT), fegetexcept());
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    char out[64] = {0}, in[64];
    MPI_Comm comm;
    fesetround(FE_UPWARD);
    feraiseexcept(FE_DIVBYZERO);
    begin(&argc, &argv);
    tell("MPI_Init");
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(FE_OVERFLOW);
    if (*what) feenableexcept(FE_INEXACT);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int time = 0; time < 5000; time++) {
        if (time % 100 == 0) MPI_Pcontrol(0x4d505300, "hundred");
        MPI_Sendrecv(out, 7, MPI_BYTE, rank ^ 1, 0, in, 64, MPI_BYTE, rank ^ 1, 0, comm, MPI_STATUS_IGNORE);
        if (time % 100 == 99) MPI_Pcontrol(0x4d505301);
    }
    tell("communication");
    if (strcmp(what, "finalize")) fedisableexcept(FE_ALL_EXCEPT);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    tell("MPI_Finalize");
    return 0;
}
