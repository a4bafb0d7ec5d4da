/* Every collective operation that an intracommunicator allows, blocking and nonblocking, once each: on
 * communicators of different sizes, with MPI_IN_PLACE where it may stand, and with a derived datatype. What each
 * process is to contribute is in tests/collectives.rs. Prints a sum over all that was received, which the
 * profiler must not change.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define MOST 4
#define ROOM 65536

static unsigned char out[ROOM], in[ROOM];
static unsigned long sum = 5381;
static int world_rank;

/* The elements that process i of a "v" operation contributes or gets; process 1 none. */
static int part(int base, int i) {
    return i == 1 ? 0 : base + 3 * i;
}

/* The elements that go from process i to j; with MPI_IN_PLACE as many must come back. */
static int pair(int base, int in_place, int i, int j) {
    if (in_place) {
        return i + j == 1 ? 0 : base + 7 * (i + j);
    }
    return i == 1 && j == 2 ? 0 : base + 5 * i + 3 * j;
}

static void fresh(void) {
    memset(in, 0, ROOM);
    for (int k = 0; k < ROOM; k++) {
        out[k] = (unsigned char)(k % 251 + world_rank);
    }
}

static void look(void) {
    for (int k = 0; k < ROOM; k++) {
        sum = sum * 33 + in[k];
    }
}

#define BOTH(blocking, nonblocking, ...)                                                                     \
    do {                                                                                                     \
        MPI_Request request;                                                                                 \
        fresh();                                                                                             \
        MPI_##blocking(__VA_ARGS__);                                                                         \
        look();                                                                                              \
        fresh();                                                                                             \
        MPI_##nonblocking(__VA_ARGS__, &request);                                                            \
        MPI_Wait(&request, MPI_STATUS_IGNORE);                                                               \
        look();                                                                                              \
    } while (0)

/* An operation on the data of the derived datatype, not on its holes. */
static void bitwise_or(void *from, void *to, int *count, MPI_Datatype *datatype) {
    (void)datatype;
    for (int k = 0; k < *count; k++) {
        ((unsigned char *)to)[4 * k] |= ((unsigned char *)from)[4 * k];
        ((unsigned char *)to)[4 * k + 3] |= ((unsigned char *)from)[4 * k + 3];
    }
}

static void displace(const int *counts, int size, int *places) {
    for (int k = 0, next = 0; k < size; next += counts[k++]) {
        places[k] = next;
    }
}

static void all(MPI_Comm comm, MPI_Datatype type, MPI_Op op, int in_place) {
    int rank, size, counts[MOST], places[MOST], to[MOST], to_places[MOST], from[MOST], from_places[MOST];
    MPI_Datatype types[MOST];
    MPI_Aint lower, extent;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Type_get_extent(type, &lower, &extent);
    int root = size - 1;
    void *mine = in_place ? MPI_IN_PLACE : out;
    void *mine_at_root = rank == root ? mine : out;
    void *get_at_root = in_place && rank == root ? MPI_IN_PLACE : in;

    BOTH(Barrier, Ibarrier, comm);
    BOTH(Bcast, Ibcast, in, 11, type, root, comm);
    BOTH(Gather, Igather, mine_at_root, 13, type, in, 13, type, root, comm);
    BOTH(Scatter, Iscatter, out, 17, type, get_at_root, 17, type, root, comm);
    BOTH(Allgather, Iallgather, mine, 19, type, in, 19, type, comm);
    BOTH(Alltoall, Ialltoall, mine, 23, type, in, 23, type, comm);
    BOTH(Reduce, Ireduce, mine_at_root, in, 29, type, op, root, comm);
    BOTH(Allreduce, Iallreduce, mine, in, 31, type, op, comm);
    BOTH(Reduce_scatter_block, Ireduce_scatter_block, mine, in, 37, type, op, comm);
    BOTH(Scan, Iscan, mine, in, 41, type, op, comm);

    for (int k = 0; k < size; k++) {
        counts[k] = part(43, k);
    }
    displace(counts, size, places);
    BOTH(Gatherv, Igatherv, mine_at_root, counts[rank], type, in, counts, places, type, root, comm);
    for (int k = 0; k < size; k++) {
        counts[k] = part(47, k);
    }
    displace(counts, size, places);
    BOTH(Scatterv, Iscatterv, out, counts, places, type, get_at_root, counts[rank], type, root, comm);
    for (int k = 0; k < size; k++) {
        counts[k] = part(53, k);
    }
    displace(counts, size, places);
    BOTH(Allgatherv, Iallgatherv, mine, counts[rank], type, in, counts, places, type, comm);
    for (int k = 0; k < size; k++) {
        counts[k] = part(59, k);
    }
    BOTH(Reduce_scatter, Ireduce_scatter, mine, in, counts, type, op, comm);

    for (int k = 0; k < size; k++) {
        to[k] = pair(61, in_place, rank, k);
        from[k] = pair(61, in_place, k, rank);
    }
    displace(to, size, to_places);
    displace(from, size, from_places);
    BOTH(Alltoallv, Ialltoallv, mine, to, to_places, type, in, from, from_places, type, comm);
    for (int k = 0; k < size; k++) {
        to[k] = pair(67, in_place, rank, k);
        from[k] = pair(67, in_place, k, rank);
        types[k] = type;
    }
    displace(to, size, to_places);
    displace(from, size, from_places);
    for (int k = 0; k < size; k++) {
        to_places[k] *= (int)extent;
        from_places[k] *= (int)extent;
    }
    BOTH(Alltoallw, Ialltoallw, mine, to, to_places, types, in, from, from_places, types, comm);

    /* Last, since what process 0 has then is undefined. */
    fresh();
    MPI_Exscan(mine, in, 71, type, op, comm);
    MPI_Request request;
    MPI_Iexscan(mine, in, 71, type, op, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank > 0 && !in_place) {
        look();
    }
}

static void named(MPI_Comm comm, const char *name, MPI_Datatype type, MPI_Op op, int in_place) {
    MPI_Comm_set_name(comm, name);
    all(comm, type, op, in_place);
}

int main(int argc, char **argv) {
    MPI_Comm some, alone, in_place, derived, alone_in_place;
    MPI_Datatype spaced;
    MPI_Op or_of_spaced;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    /* Two bytes of four, the first and the last. */
    MPI_Type_vector(2, 1, 3, MPI_BYTE, &spaced);
    MPI_Type_commit(&spaced);
    MPI_Op_create(bitwise_or, 1, &or_of_spaced);
    MPI_Comm_dup(MPI_COMM_SELF, &alone);
    MPI_Comm_dup(MPI_COMM_SELF, &alone_in_place);
    MPI_Comm_dup(MPI_COMM_WORLD, &in_place);
    MPI_Comm_dup(MPI_COMM_WORLD, &derived);
    /* Processes 3, 2, 0 in this order. */
    MPI_Comm_split(MPI_COMM_WORLD, world_rank == 1 ? MPI_UNDEFINED : 0, -world_rank, &some);

    all(MPI_COMM_WORLD, MPI_BYTE, MPI_BOR, 0);
    all(MPI_COMM_SELF, MPI_BYTE, MPI_BOR, 0);
    named(alone, "alone", MPI_BYTE, MPI_BOR, 0);
    named(alone_in_place, "alone in place", MPI_BYTE, MPI_BOR, 1);
    named(in_place, "in place", MPI_BYTE, MPI_BOR, 1);
    named(derived, "derived", spaced, or_of_spaced, 0);
    if (some != MPI_COMM_NULL) {
        named(some, "some", MPI_BYTE, MPI_BOR, 0);
    }
    printf("%d %lx\n", world_rank, sum);
    MPI_Finalize();
    return 0;
}
