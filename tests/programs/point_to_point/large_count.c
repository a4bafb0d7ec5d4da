/* The large-count variants, where the MPI has them. Prints whether it has. */
#include "program.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
#if MPI_VERSION >= 4
    static char data[20011], attached[1 << 16];
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Request requests[12];
    int n = 0;
    MPI_Buffer_attach(attached, sizeof attached);
    if (rank == 0) {
        MPI_Send_c(data, 1019, MPI_BYTE, 1, 0, comm);
        MPI_Bsend_c(data, 1021, MPI_BYTE, 1, 0, comm);
        MPI_Ssend_c(data, 1031, MPI_BYTE, 1, 0, comm);
        MPI_Isend_c(data, 1033, MPI_BYTE, 1, 0, comm, &requests[n++]);
        MPI_Ibsend_c(data, 1039, MPI_BYTE, 1, 0, comm, &requests[n++]);
        MPI_Issend_c(data, 1049, MPI_BYTE, 1, 0, comm, &requests[n++]);
        MPI_Send_init_c(data, 1051, MPI_BYTE, 1, 0, comm, &requests[n++]);
        MPI_Bsend_init_c(data, 1061, MPI_BYTE, 1, 0, comm, &requests[n++]);
        MPI_Ssend_init_c(data, 1063, MPI_BYTE, 1, 0, comm, &requests[n++]);
        MPI_Startall(3, requests + 3);
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        MPI_Sendrecv_c(data, 1069, MPI_BYTE, 1, 0, data + 2000, 4001, MPI_BYTE, 1, 0, comm, MPI_STATUS_IGNORE);
        MPI_Sendrecv_replace_c(data, 1087, MPI_BYTE, 1, 0, 1, 0, comm, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv_init_c(data, 20011, MPI_BYTE, 0, 0, comm, &requests[3]);
        for (int i = 0; i < 3; i++) MPI_Recv_c(data, 20011, MPI_BYTE, 0, 0, comm, MPI_STATUS_IGNORE);
        for (int i = 0; i < 3; i++) {
            MPI_Irecv_c(data, 20011, MPI_BYTE, 0, 0, comm, &requests[0]);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        }
        for (int i = 0; i < 3; i++) {
            MPI_Start(&requests[3]);
            MPI_Wait(&requests[3], MPI_STATUS_IGNORE);
        }
        MPI_Sendrecv_c(data, 1091, MPI_BYTE, 0, 0, data + 2000, 4001, MPI_BYTE, 0, 0, comm, MPI_STATUS_IGNORE);
        MPI_Sendrecv_replace_c(data, 1087, MPI_BYTE, 0, 0, 0, 0, comm, MPI_STATUS_IGNORE);
        MPI_Request_free(&requests[3]);
    }
    if (rank == 0) {
        for (int i = 3; i < 6; i++) MPI_Request_free(&requests[i]);
        printf("large\n");
    }
    void *back;
    int length;
    MPI_Buffer_detach(&back, &length);
#endif
    MPI_Finalize();
    return 0;
}
