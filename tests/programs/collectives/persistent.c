/* Every persistent collective operation, each on a communicator of its own with its name: prepared twice, once to be
 * started by itself, once together with all others. Two are started again and again; MPICH 4.0 fails with some. */
#include "program.h"
#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define INIT(name) MPIX_##name##_init
#else
#define INIT(name) MPI_##name##_init
#endif

enum { RANKS = 4, OPERATIONS = 22, ROOM = 8192, AGAIN = 3, ROOT = RANKS - 1 };
static char out[ROOM], in[OPERATIONS][ROOM];
static MPI_Comm comms[OPERATIONS];
static MPI_Request requests[2 * OPERATIONS];
static int made;
#define HERE (made % OPERATIONS)

static MPI_Comm comm_of(const char *name) {
    if (made >= OPERATIONS) return comms[HERE];
    int ranks = RANKS, periodic = 1;
    if (strncmp(name, "Neighbor", 8))
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[made]);
    else
        MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &comms[made]);
    MPI_Comm_set_name(comms[made], name);
    return comms[made];
}

#define PREPARE(name, ...) INIT(name)(__VA_ARGS__, comm_of(#name), MPI_INFO_NULL, &requests[made]), made++

/* Arrays must stay as they are until the request is free. */
static int *numbers(int base, int of_rank, int of_other) {
    int *array = malloc(RANKS * sizeof *array);
    for (int k = 0; k < RANKS; k++) array[k] = base + of_rank * rank + of_other * k;
    return array;
}

static void prepare(void) {
    int *places = numbers(0, 0, 1300), left = (rank + RANKS - 1) % RANKS, right = (rank + 1) % RANKS;
    static MPI_Datatype types[RANKS] = {0};
    static MPI_Aint near_places[2] = {0, 1300};
    for (int k = 0; k < RANKS; k++) types[k] = MPI_BYTE;
    INIT(Barrier)(comm_of("Barrier"), MPI_INFO_NULL, &requests[made]), made++;
    PREPARE(Bcast, in[HERE], 1103, MPI_BYTE, ROOT);
    PREPARE(Gather, out, 1109, MPI_BYTE, in[HERE], 1109, MPI_BYTE, ROOT);
    PREPARE(Scatter, out, 1117, MPI_BYTE, in[HERE], 1117, MPI_BYTE, ROOT);
    PREPARE(Allgather, out, 1123, MPI_BYTE, in[HERE], 1123, MPI_BYTE);
    PREPARE(Alltoall, out, 1129, MPI_BYTE, in[HERE], 1129, MPI_BYTE);
    PREPARE(Reduce, out, in[HERE], 1151, MPI_BYTE, MPI_BOR, ROOT);
    PREPARE(Allreduce, out, in[HERE], 1153, MPI_BYTE, MPI_BOR);
    PREPARE(Reduce_scatter_block, out, in[HERE], 1163, MPI_BYTE, MPI_BOR);
    PREPARE(Scan, out, in[HERE], 1171, MPI_BYTE, MPI_BOR);
    PREPARE(Exscan, out, in[HERE], 1181, MPI_BYTE, MPI_BOR);
    PREPARE(Gatherv, out, 1187 + rank, MPI_BYTE, in[HERE], numbers(1187, 0, 1), places, MPI_BYTE, ROOT);
    PREPARE(Scatterv, out, numbers(1193, 0, 1), places, MPI_BYTE, in[HERE], 1193 + rank, MPI_BYTE, ROOT);
    PREPARE(Allgatherv, out, 1201 + rank, MPI_BYTE, in[HERE], numbers(1201, 0, 1), places, MPI_BYTE);
    PREPARE(Reduce_scatter, out, in[HERE], numbers(1213, 0, 1), MPI_BYTE, MPI_BOR);
    PREPARE(Alltoallv, out, numbers(1217, 5, 1), places, MPI_BYTE, in[HERE], numbers(1217, 1, 5), places, MPI_BYTE);
    PREPARE(Alltoallw, out, numbers(1229, 5, 1), places, types, in[HERE], numbers(1229, 1, 5), places, types);
    PREPARE(Neighbor_allgather, out, 1231, MPI_BYTE, in[HERE], 1231, MPI_BYTE);
    int *near = numbers(1237, 0, 0);
    near[0] += left, near[1] += right;
    PREPARE(Neighbor_allgatherv, out, 1237 + rank, MPI_BYTE, in[HERE], near, places, MPI_BYTE);
    PREPARE(Neighbor_alltoall, out, 1249, MPI_BYTE, in[HERE], 1249, MPI_BYTE);
    near = numbers(1259, 0, 0);
    near[0] += left, near[1] += right;
    PREPARE(Neighbor_alltoallv, out, numbers(1259, 1, 0), places, MPI_BYTE, in[HERE], near, places, MPI_BYTE);
    near = numbers(1277, 0, 0);
    near[0] += left, near[1] += right;
    PREPARE(Neighbor_alltoallw, out, numbers(1277, 1, 0), near_places, types, in[HERE], near, near_places, types);
}

static void fill(void) {
    memset(out, 1 << rank, ROOM);
    memset(in, rank == ROOT ? 64 : 0, sizeof in);
}

static void look(void) {
    EXPECT(in[1][1102] == 64);                            /* Bcast */
    EXPECT(in[4][3 * 1123] == 8);                         /* Allgather */
    EXPECT(in[7][0] == 15 && in[7][1152] == 15);          /* Allreduce */
    EXPECT(in[17][0] == 1 << (rank + RANKS - 1) % RANKS); /* Neighbor_allgather */
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(size == RANKS);
    prepare();
    prepare();
    EXPECT(made == 2 * OPERATIONS);
    fill();
    for (int k = 0; k < OPERATIONS; k++) {
        for (int start = 0; start < (k == 1 || k == 7 ? AGAIN : 1); start++) {
            MPI_Start(&requests[k]);
            MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
        }
    }
    look();
    fill();
    MPI_Startall(OPERATIONS, requests + OPERATIONS);
    MPI_Waitall(OPERATIONS, requests + OPERATIONS, MPI_STATUSES_IGNORE);
    look();
    for (int k = 0; k < 2 * OPERATIONS; k++) MPI_Request_free(&requests[k]);
    for (int k = 0; k < OPERATIONS; k++) MPI_Comm_free(&comms[k]);
    MPI_Finalize();
    return 0;
}
