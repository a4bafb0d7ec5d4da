/* Initialises MPI's interface for tools before MPI, as MPI 4.1, 15.3.4 allows. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int provided, variables, sum, one = 1;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_cvar_get_num(&variables);
    MPI_Init(&argc, &argv);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_T_finalize();
    printf("%d ranks, variables %s\n", sum, variables > 0 ? "yes" : "no");
    MPI_Finalize();
    return 0;
}
