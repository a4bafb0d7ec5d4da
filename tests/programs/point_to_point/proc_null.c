/* Communication with MPI_PROC_NULL: every kind of call counts and moves nothing. (MPICH 4.0 leaves the statuses of
 * such requests unset, so they are not looked at.) */
#include "program.h"

enum { BYTES = 3001 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[BYTES], other[BYTES];
    MPI_Status status, statuses[12];
    MPI_Request requests[12];
    int n = 0, flag;
    MPI_Comm comm = MPI_COMM_WORLD;
#define TO data, BYTES, MPI_BYTE, MPI_PROC_NULL, 5, comm
    MPI_Send(TO);
    MPI_Bsend(TO);
    MPI_Ssend(TO);
    MPI_Rsend(TO);
    MPI_Recv(TO, &status);
    EXPECT(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    MPI_Recv(TO, MPI_STATUS_IGNORE);
    MPI_Isend(TO, &requests[n++]);
    MPI_Ibsend(TO, &requests[n++]);
    MPI_Issend(TO, &requests[n++]);
    MPI_Irsend(TO, &requests[n++]);
    MPI_Irecv(TO, &requests[n++]);
    MPI_Send_init(TO, &requests[n++]);
    MPI_Bsend_init(TO, &requests[n++]);
    MPI_Ssend_init(TO, &requests[n++]);
    MPI_Rsend_init(TO, &requests[n++]);
    MPI_Recv_init(TO, &requests[n++]);
    MPI_Start(&requests[5]);
    MPI_Startall(4, requests + 6);
    MPI_Waitall(n, requests, statuses);
    for (int i = 5; i < n; i++) MPI_Request_free(&requests[i]);
    MPI_Sendrecv(data, BYTES, MPI_BYTE, MPI_PROC_NULL, 5, other, BYTES, MPI_BYTE, MPI_PROC_NULL, 5, comm, &status);
    EXPECT(status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Sendrecv_replace(data, BYTES, MPI_BYTE, MPI_PROC_NULL, 5, MPI_PROC_NULL, 5, comm, MPI_STATUS_IGNORE);
    MPI_Probe(MPI_PROC_NULL, 5, comm, &status);
    EXPECT(status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Iprobe(MPI_PROC_NULL, 5, comm, &flag, MPI_STATUS_IGNORE);
    EXPECT(flag);
    MPI_Finalize();
    return 0;
}
