/* Partitioned messages, both ways at once, cut differently on both sides. Prints how often it tested whether a partition
 * arrived; an MPI without partitioned communication does nothing but say so. */
#include "program.h"

#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 5
int main(int argc, char **argv) {
    begin(&argc, &argv);
    if (rank == 0) printf("asked -\n");
    MPI_Finalize();
    return 0;
}
#else
enum { PARTITIONS = 6, COUNT = 101, ROUNDS = 3 };
static int out[PARTITIONS * COUNT], in[PARTITIONS * COUNT];

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int other = 1 - rank, list[] = {3, 5}, asked = 0;
    MPI_Comm dup;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Psend_init(out, PARTITIONS, COUNT, MPI_INT, other, 5, dup, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, PARTITIONS / 2, 2 * COUNT, MPI_INT, other, 5, dup, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < PARTITIONS * COUNT; k++) out[k] = 1000 * round + k;
        memset(in, -1, sizeof in);
        if (round == 0) {
            MPI_Startall(2, requests);
        } else {
            MPI_Start(&requests[0]);
            MPI_Start(&requests[1]);
        }
        MPI_Pready_range(0, 2, requests[0]);
        MPI_Pready(4, requests[0]);
        MPI_Pready_list(2, list, requests[0]);
        for (int arrived = 0; round == 1 && !arrived; asked++) MPI_Parrived(requests[1], 1, &arrived);
        MPI_Waitall(2, requests, round == 2 ? MPI_STATUSES_IGNORE : statuses);
        if (round != 2) expect_status(&statuses[1], other, 5, (int)sizeof in);
        EXPECT(in[0] == 1000 * round && in[PARTITIONS * COUNT - 1] == out[PARTITIONS * COUNT - 1]);
    }
    for (int k = 0; k < 2; k++) MPI_Request_free(&requests[k]);
    MPI_Comm_free(&dup);
    if (rank == 0) printf("asked %d\n", asked);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) printf("asked too %d\n", asked);
    MPI_Finalize();
    return 0;
}
#endif
