/* Begins and ends a region 20,000 times, beside few calls. */
#include <mpi.h>
#include <mpisee.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    for (int time = 0; time < 300; time++) MPI_Barrier(MPI_COMM_WORLD);
    for (int time = 0; time < 20000; time++) {
        mpisee_region_begin("short");
        mpisee_region_end();
    }
    MPI_Finalize();
    return 0;
}
