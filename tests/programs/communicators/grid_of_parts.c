/* A grid of two rows: lines of it, duplicates of them, a pair of unlike sizes. Messages go along the rows, and what is
   reduced differs by rank. Each rank's calls, bytes and peers are the same in each run. */
#include "program.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char out[9001], in[9001];
    int columns = size / 2, at[2] = {rank / columns, rank % columns};
    MPI_Comm row, column, copy, part, below;
    MPI_Comm_split(MPI_COMM_WORLD, at[0], at[1], &row);
    MPI_Comm_split(MPI_COMM_WORLD, at[1], at[0], &column);
    MPI_Comm_dup(column, &copy);
    MPI_Comm_split(MPI_COMM_WORLD, rank < 3, rank, &part);
    MPI_Comm_split(part, rank % 2, rank, &below);
    MPI_Comm_set_name(row, "row");
    int next = (at[1] + 1) % columns, before = (at[1] + columns - 1) % columns;
    for (int i = 0; i < 1 + rank; i++) MPI_Allreduce(out, in, 101, MPI_BYTE, MPI_BOR, MPI_COMM_SELF);
    for (int i = 0; i < 3; i++) MPI_Allreduce(out, in, 107, MPI_BYTE, MPI_BOR, row);
    MPI_Bcast(out, 211, MPI_BYTE, 0, column);
    MPI_Bcast(out, 5003, MPI_BYTE, 0, column);
    MPI_Allgather(out, 13, MPI_BYTE, in, 13, MPI_BYTE, copy);
    MPI_Barrier(part);
    MPI_Bcast(out, 307, MPI_BYTE, 0, below);
    MPI_Sendrecv(out, 1009 + rank, MPI_BYTE, next, 3, in, 9001, MPI_BYTE, before, 3, row, MPI_STATUS_IGNORE);
    if (rank == 0) MPI_Send(out, 401, MPI_BYTE, size - 1, 4, MPI_COMM_WORLD);
    if (rank == size - 1) MPI_Recv(in, 9001, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_free(&copy);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
