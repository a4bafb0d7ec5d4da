/* Every neighbourhood collective, blocking and nonblocking, on each kind of topology. At the ends of a line that
 * is not periodic stands MPI_PROC_NULL, with counts like everywhere: to it goes nothing.
 */
#include <mpi.h>

#define MOST 8
#define ROOM 16384

static unsigned char out[ROOM], in[ROOM];
static int rank;
static MPI_Comm line, mixed, graph, adjacent, dist, ring;

#define BOTH(blocking, nonblocking, ...)                                                                     \
    do {                                                                                                     \
        MPI_Request request;                                                                                 \
        MPI_##blocking(__VA_ARGS__);                                                                         \
        MPI_##nonblocking(__VA_ARGS__, &request);                                                            \
        MPI_Wait(&request, MPI_STATUS_IGNORE);                                                               \
    } while (0)

/* The bytes from process i to process j. */
static int pair(int base, int i, int j) {
    return i == 1 && j == 2 ? 0 : base + 5 * i + 3 * j;
}

static void blocks(int base, int sources, const int *from, int targets, const int *to, int *got, int *got_at,
                   int *given, int *given_at) {
    for (int k = 0, next = 0; k < sources; next += got[k++]) {
        got[k] = from[k] == MPI_PROC_NULL ? 101 : pair(base, from[k], rank);
        got_at[k] = next;
    }
    for (int k = 0, next = 0; k < targets; next += given[k++]) {
        given[k] = to[k] == MPI_PROC_NULL ? 103 : pair(base, rank, to[k]);
        given_at[k] = next;
    }
}

static void all(MPI_Comm comm, int sources, const int *from, int targets, const int *to) {
    int got[MOST], got_at[MOST], given[MOST], given_at[MOST];
    MPI_Aint got_far[MOST], given_far[MOST];
    MPI_Datatype types[MOST];

    BOTH(Neighbor_allgather, Ineighbor_allgather, out, 11, MPI_BYTE, in, 11, MPI_BYTE, comm);
    BOTH(Neighbor_alltoall, Ineighbor_alltoall, out, 13, MPI_BYTE, in, 13, MPI_BYTE, comm);
    for (int k = 0, next = 0; k < sources; next += got[k++]) {
        got[k] = from[k] == MPI_PROC_NULL ? 107 : 17 + 3 * from[k];
        got_at[k] = next;
    }
    BOTH(Neighbor_allgatherv, Ineighbor_allgatherv, out, 17 + 3 * rank, MPI_BYTE, in, got, got_at, MPI_BYTE, comm);
    blocks(19, sources, from, targets, to, got, got_at, given, given_at);
    BOTH(Neighbor_alltoallv, Ineighbor_alltoallv, out, given, given_at, MPI_BYTE, in, got, got_at, MPI_BYTE, comm);
    blocks(23, sources, from, targets, to, got, got_at, given, given_at);
    for (int k = 0; k < MOST; k++) {
        types[k] = MPI_BYTE;
        got_far[k] = k < sources ? got_at[k] : 0;
        given_far[k] = k < targets ? given_at[k] : 0;
    }
    /* MPICH 4.0 fails now and then in these two where a process has not as many sources as targets, also
       without a profiler. */
    if (comm != adjacent && comm != dist) {
        BOTH(Neighbor_alltoallw, Ineighbor_alltoallw, out, given, given_far, types, in, got, got_far, types, comm);
    }
}

static void on_cart(MPI_Comm comm, int dimensions) {
    int neighbours[MOST];
    for (int d = 0; d < dimensions; d++) {
        MPI_Cart_shift(comm, d, 1, &neighbours[2 * d], &neighbours[2 * d + 1]);
    }
    all(comm, 2 * dimensions, neighbours, 2 * dimensions, neighbours);
}

static void on_graph(MPI_Comm comm) {
    int neighbours[MOST], count;
    MPI_Graph_neighbors_count(comm, rank, &count);
    MPI_Graph_neighbors(comm, rank, MOST, neighbours);
    all(comm, count, neighbours, count, neighbours);
}

static void on_dist_graph(MPI_Comm comm) {
    int sources, targets, weighted, from[MOST], to[MOST], weights[MOST];
    MPI_Dist_graph_neighbors_count(comm, &sources, &targets, &weighted);
    int *place = weighted ? weights : MPI_UNWEIGHTED;
    MPI_Dist_graph_neighbors(comm, sources, from, place, targets, to, place);
    all(comm, sources, from, targets, to);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){4}, (int[]){0}, 0, &line);
    MPI_Comm_set_name(line, "line");
    on_cart(line, 1);

    MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){2, 2}, (int[]){0, 1}, 0, &mixed);
    MPI_Comm_set_name(mixed, "mixed");
    on_cart(mixed, 2);

    /* A star around process 0 with the edge 1-2. */
    MPI_Graph_create(MPI_COMM_WORLD, 4, (int[]){3, 5, 7, 8}, (int[]){1, 2, 3, 0, 2, 0, 1, 0}, 0, &graph);
    MPI_Comm_set_name(graph, "graph");
    on_graph(graph);

    /* 0 gives to 1, 2 and 3; 1 to 2; 2 to 3; 3 to nobody. */
    int sources[4][2] = {{0, 0}, {0, 0}, {0, 1}, {0, 2}}, in_degree[4] = {0, 1, 2, 2};
    int targets[4][3] = {{1, 2, 3}, {2, 0, 0}, {3, 0, 0}, {0, 0, 0}}, out_degree[4] = {3, 1, 1, 0};
    int *volatile none = MPI_UNWEIGHTED; /* volatile, since compilers warn of arrays of length 0 */
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in_degree[rank], sources[rank], none, out_degree[rank],
                                   targets[rank], none, MPI_INFO_NULL, 0, &adjacent);
    MPI_Comm_set_name(adjacent, "adjacent");
    on_dist_graph(adjacent);

    /* 0 to 2; 1 to 2 and 3; 2 to 0; 3 to itself. Process 1 passes all edges. */
    int weights[5] = {2, 3, 5, 7, 11};
    int telling = rank == 1 ? 4 : 0;
    MPI_Dist_graph_create(MPI_COMM_WORLD, telling, (int[]){0, 1, 2, 3}, (int[]){1, 2, 1, 1},
                          (int[]){2, 2, 3, 0, 3}, weights, MPI_INFO_NULL, 0, &dist);
    MPI_Comm_set_name(dist, "dist");
    on_dist_graph(dist);

    int next = (rank + 1) % 4, last = (rank + 3) % 4;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &last, weights, 1, &next, weights, MPI_INFO_NULL, 0, &ring);
    MPI_Comm_set_name(ring, "ring");
    on_dist_graph(ring);

    MPI_Finalize();
    return 0;
}
