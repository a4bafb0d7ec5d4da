/* A plugin for host.c that comes with a few functions in place of MPI, for one process, as sequential solvers do. They
 * have no profiling twins. */
#include <stdio.h>
#include <string.h>

int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
void mpi_init_(int *code);
void mpi_allreduce_(const int *from, int *to, const int *count, const int *type, const int *op, const int *comm, int *code);
void mpi_finalize_(int *code);
int run(void);

int MPI_Init(int *argc, char ***argv) { return argc == NULL && argv == NULL ? 0 : 1; }
int MPI_Finalize(void) { return 0; }
void mpi_init_(int *code) { *code = 0; }
void mpi_finalize_(int *code) { *code = 0; }

void mpi_allreduce_(const int *from, int *to, const int *count, const int *type, const int *op, const int *comm, int *code) {
    memcpy(to, from, (size_t)*count * sizeof *to);
    *code = *type == 13 && *op == 1 && *comm == -987654 ? 0 : 1;
}

int run(void) {
    int from[2] = {3, 4}, to[2] = {0, 0}, count = 2, type = 13, op = 1, comm = -987654, code[] = {7, 7, 7};
    int of_c = MPI_Init(NULL, NULL);
    mpi_init_(&code[0]);
    mpi_allreduce_(from, to, &count, &type, &op, &comm, &code[1]);
    mpi_finalize_(&code[2]);
    of_c += MPI_Finalize();
    printf("%d, %d %d %d, %d %d\n", of_c, code[0], code[1], code[2], to[0], to[1]);
    return 0;
}
