/* Every collective operation that an intercommunicator allows, blocking and nonblocking, once each, between the
 * groups {0, 1} and {2, 3, 4}. Those with a root have process 3 for it: so it is the first group that gives in a
 * gather and gets in a scatter.
 */
#include <mpi.h>
#include <string.h>

#define MOST 5
#define ROOM 65536

static unsigned char out[ROOM], in[ROOM];

#define BOTH(blocking, nonblocking, ...)                                                                     \
    do {                                                                                                     \
        MPI_Request request;                                                                                 \
        MPI_##blocking(__VA_ARGS__);                                                                         \
        MPI_##nonblocking(__VA_ARGS__, &request);                                                            \
        MPI_Wait(&request, MPI_STATUS_IGNORE);                                                               \
    } while (0)

static int part(int base, int i) {
    return i == 1 ? 0 : base + 3 * i;
}

static int pair(int base, int i, int j) {
    return i == 1 && j == 2 ? 0 : base + 5 * i + 3 * j;
}

static void displace(const int *counts, int size, int *places) {
    for (int k = 0, next = 0; k < size; next += counts[k++]) {
        places[k] = next;
    }
}

int main(int argc, char **argv) {
    int rank, counts[MOST], places[MOST], to[MOST], to_places[MOST], from[MOST], from_places[MOST];
    MPI_Datatype types[MOST];
    MPI_Comm group, comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int first = rank < 2;
    int others = first ? 3 : 2;
    int other = first ? 2 : 0; /* the first world rank of the other group */
    int root = first ? 1 : rank == 3 ? MPI_ROOT : MPI_PROC_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, first, 0, &group);
    MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, other, 99, &comm);

    BOTH(Barrier, Ibarrier, comm);
    BOTH(Bcast, Ibcast, in, 11, MPI_BYTE, root, comm);
    BOTH(Gather, Igather, out, 13, MPI_BYTE, in, 13, MPI_BYTE, root, comm);
    BOTH(Scatter, Iscatter, out, 17, MPI_BYTE, in, 17, MPI_BYTE, root, comm);
    /* The second group gives more than the first. */
    int give = first ? 19 : 22, get = first ? 22 : 19;
    BOTH(Allgather, Iallgather, out, give, MPI_BYTE, in, get, MPI_BYTE, comm);
    give = first ? 23 : 27, get = first ? 27 : 23;
    BOTH(Alltoall, Ialltoall, out, give, MPI_BYTE, in, get, MPI_BYTE, comm);
    BOTH(Reduce, Ireduce, out, in, 29, MPI_BYTE, MPI_BOR, root, comm);
    BOTH(Allreduce, Iallreduce, out, in, 31, MPI_BYTE, MPI_BOR, comm);
    /* As much for each group as a whole. */
    BOTH(Reduce_scatter_block, Ireduce_scatter_block, out, in, first ? 3 * 37 : 2 * 37, MPI_BYTE, MPI_BOR, comm);
    counts[0] = first ? 59 : 2 * 59;
    counts[1] = first ? 5 * 59 : 59;
    counts[2] = 3 * 59;
    BOTH(Reduce_scatter, Ireduce_scatter, out, in, counts, MPI_BYTE, MPI_BOR, comm);

    /* The first group has the roots' arrays for itself, which are not significant there. */
    for (int k = 0; k < others; k++) {
        counts[k] = part(43, other + k);
    }
    displace(counts, others, places);
    BOTH(Gatherv, Igatherv, out, part(43, rank), MPI_BYTE, in, counts, places, MPI_BYTE, root, comm);
    for (int k = 0; k < others; k++) {
        counts[k] = part(47, other + k);
    }
    displace(counts, others, places);
    BOTH(Scatterv, Iscatterv, out, counts, places, MPI_BYTE, in, part(47, rank), MPI_BYTE, root, comm);
    for (int k = 0; k < others; k++) {
        counts[k] = part(53, other + k);
    }
    displace(counts, others, places);
    BOTH(Allgatherv, Iallgatherv, out, part(53, rank), MPI_BYTE, in, counts, places, MPI_BYTE, comm);
    for (int k = 0; k < others; k++) {
        to[k] = pair(61, rank, other + k);
        from[k] = pair(61, other + k, rank);
    }
    displace(to, others, to_places);
    displace(from, others, from_places);
    BOTH(Alltoallv, Ialltoallv, out, to, to_places, MPI_BYTE, in, from, from_places, MPI_BYTE, comm);
    for (int k = 0; k < others; k++) {
        to[k] = pair(67, rank, other + k);
        from[k] = pair(67, other + k, rank);
        types[k] = MPI_BYTE;
    }
    displace(to, others, to_places);
    displace(from, others, from_places);
    BOTH(Alltoallw, Ialltoallw, out, to, to_places, types, in, from, from_places, types, comm);

    MPI_Comm_free(&comm);
    MPI_Comm_free(&group);
    MPI_Finalize();
    return 0;
}
