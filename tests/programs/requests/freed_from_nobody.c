/* Active receives from MPI_PROC_NULL whose requests are freed: nothing comes, so that nothing is lost. */
#include "program.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    char in[409], out[419], got[419];
    memset(out, 1, sizeof out);
    MPI_Request request;
    MPI_Irecv(in, sizeof in, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &request);
    MPI_Request_free(&request);
    MPI_Recv_init(in, sizeof in, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &request);
    MPI_Start(&request);
    MPI_Request_free(&request);
#if MPI_VERSION >= 4
    MPI_Isendrecv(out, sizeof out, MPI_BYTE, 0, 0, in, sizeof in, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &request);
    MPI_Request_free(&request);
    MPI_Recv(got, sizeof got, MPI_BYTE, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
#endif
    MPI_Finalize();
    return 0;
}
