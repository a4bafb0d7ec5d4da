/* Every wait and test without a request, with null requests, and with persistent ones that are not active: all
 * return at once, and belong to no communicator. Then each with one active request beside the others. */
#include "program.h"

static MPI_Request requests[3];
static MPI_Status statuses[3];

static void all_kinds(int n) {
    int index, flag, done, indices[3];
    MPI_Request *given = n ? requests : NULL;
    MPI_Waitall(n, given, MPI_STATUSES_IGNORE);
    MPI_Waitany(n, given, &index, MPI_STATUS_IGNORE);
    EXPECT(index == MPI_UNDEFINED);
    MPI_Waitsome(n, given, &done, indices, MPI_STATUSES_IGNORE);
    EXPECT(done == MPI_UNDEFINED);
    MPI_Testall(n, given, &flag, MPI_STATUSES_IGNORE);
    EXPECT(flag);
    flag = 0;
    MPI_Testany(n, given, &index, &flag, &statuses[0]);
    EXPECT(flag && index == MPI_UNDEFINED);
    expect_empty(&statuses[0]);
    MPI_Testsome(n, given, &done, indices, statuses);
    EXPECT(done == MPI_UNDEFINED);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[2909];
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    all_kinds(0);
    for (int i = 0; i < 3; i++) requests[i] = MPI_REQUEST_NULL;
    all_kinds(3);
    MPI_Recv_init(data, 2909, MPI_BYTE, rank, 1, MPI_COMM_WORLD, &requests[1]);
    all_kinds(3);
    for (int i = 0; i < 2; i++) {
        int flag = 0;
        MPI_Wait(&requests[i], &statuses[0]);
        expect_empty(&statuses[0]);
        MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
        EXPECT(flag);
    }
    /* Of the three only the last is active, and only its communicator is charged. */
    int index, done, indices[3];
#define ACTIVE(bytes)                                                                                             \
    MPI_Irecv(data, 2909, MPI_BYTE, rank, 2, dup, &requests[2]);                                                  \
    MPI_Send(data + bytes, bytes, MPI_BYTE, rank, 2, dup)
    ACTIVE(1201);
    MPI_Waitall(3, requests, statuses);
    expect_empty(&statuses[0]);
    expect_empty(&statuses[1]);
    expect_status(&statuses[2], rank, 2, 1201);
    ACTIVE(1213);
    MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
    EXPECT(index == 2);
    ACTIVE(1217);
    MPI_Waitsome(3, requests, &done, indices, statuses);
    EXPECT(done == 1 && indices[0] == 2);
    expect_status(&statuses[0], rank, 2, 1217);
    MPI_Request_free(&requests[1]);
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
