/* Persistent buffered sends that are started again while their last message is still on its way: the receiver asks for the
 * messages after all of them were started. Open MPI then puts another request into the program's variable. */
#include "program.h"

enum { ROUNDS = 5, BYTES = 70001, OTHER = 66003 };
static char data[2][BYTES], attached[(ROUNDS + 1) * (BYTES + OTHER + 2 * MPI_BSEND_OVERHEAD)];

int main(int argc, char **argv) {
    begin(&argc, &argv);
    const int bytes[2] = {BYTES, OTHER};
    if (rank == 0) {
        MPI_Request requests[2];
        MPI_Buffer_attach(attached, sizeof attached);
        for (int i = 0; i < 2; i++) MPI_Bsend_init(data[i], bytes[i], MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]);
        for (int round = 0; round < ROUNDS; round++) {
            if (round % 2) {
                MPI_Startall(2, requests);
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            } else {
                for (int i = 0; i < 2; i++) MPI_Start(&requests[i]);
                for (int i = 0; i < 2; i++) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < 2; i++) MPI_Request_free(&requests[i]);
        void *back;
        int length;
        MPI_Buffer_detach(&back, &length);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        for (int round = 0; round < ROUNDS; round++)
            for (int i = 0; i < 2; i++) {
                MPI_Status status;
                MPI_Recv(data[i], bytes[i], MPI_BYTE, 0, i, MPI_COMM_WORLD, &status);
                expect_status(&status, 0, i, bytes[i]);
            }
    }
    MPI_Finalize();
    return 0;
}
