/* MPI_Request_get_status_all, _any and _some, which leave the requests as they are. Each process prints how often it
 * looked in each way. Without them it says that the MPI is too old. */
#include "program.h"

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[3001], back[2][3001];
    int other = 1 - rank, flag = 0, index = -1, count = 0, indices[3];
    int all = 0, any = 0, some = 0;
    MPI_Comm dup;
    MPI_Request requests[3];
    MPI_Status statuses[3];
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Irecv(back[0], sizeof back[0], MPI_BYTE, other, 1, dup, &requests[0]);
    MPI_Irecv(back[1], sizeof back[1], MPI_BYTE, other, 2, dup, &requests[1]);
    requests[2] = MPI_REQUEST_NULL;
    MPI_Request_get_status_all(3, requests, &flag, MPI_STATUSES_IGNORE);
    EXPECT(!flag);
    all++;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(data, 1301, MPI_BYTE, other, 1, dup);
    MPI_Send(data, 1401, MPI_BYTE, other, 2, dup);
    for (; !flag; any++) MPI_Request_get_status_any(3, requests, &index, &flag, MPI_STATUS_IGNORE);
    EXPECT(index == 0 || index == 1);
    for (; count == 0; some++) MPI_Request_get_status_some(3, requests, &count, indices, statuses);
    for (flag = 0; !flag; all++) MPI_Request_get_status_all(3, requests, &flag, statuses);
    expect_status(&statuses[0], other, 1, 1301);
    expect_status(&statuses[1], other, 2, 1401);
    EXPECT(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&dup);
    printf("all-%d %d\nany-%d %d\nsome-%d %d\n", rank, all, rank, any, rank, some);
    MPI_Finalize();
    return 0;
}
#else
int main(int argc, char **argv) {
    begin(&argc, &argv);
    if (rank == 0) printf("too old\n");
    MPI_Finalize();
    return 0;
}
#endif
