/* Requests that are completed behind the profiler's back, by PMPI_Wait, while others that it sees get the same handles. */
#include "program.h"

enum { ROUNDS = 200 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char in[3001], out[3001];
    MPI_Comm dup;
    MPI_Request receive, send;
    MPI_Comm_dup(MPI_COMM_SELF, &dup);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Irecv(in, 2003, MPI_BYTE, 0, 0, MPI_COMM_SELF, &receive);
        MPI_Isend(out, 2003, MPI_BYTE, 0, 0, MPI_COMM_SELF, &send);
        PMPI_Wait(&send, MPI_STATUS_IGNORE);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        MPI_Irecv(in, 3001, MPI_BYTE, 0, 0, dup, &receive);
        MPI_Isend(out, 3001, MPI_BYTE, 0, 0, dup, &send);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
