/* Communicators of many kinds, with regions: halves of the world, and below them duplicates without end, a graph of
 * neighbours, what lies between the halves and what comes of merging them, groups made by some, and what each process has
 * for itself. Every rank's calls, bytes and peers are the same in each run. With the argument `kill` all ranks kill
 * themselves in place of MPI_Finalize, when all have come so far. */
#include "meet.h"
#include <mpisee.h>
#include <signal.h>

static char out[9001], in[9001];

static void without_end(MPI_Comm half) {
    for (int time = 0; time < 12; time++) {
        MPI_Comm copy;
        MPI_Comm_dup(half, &copy);
        MPI_Bcast(out, 401 + time, MPI_BYTE, 0, copy);
        MPI_Comm_free(&copy);
    }
}

static void neighbours(void) {
    MPI_Comm graph;
    int before = (rank + size - 1) % size, next = (rank + 1) % size;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &graph);
    MPI_Neighbor_allgather(out, 307, MPI_BYTE, in, 307, MPI_BYTE, graph);
    MPI_Sendrecv(out, 503 + rank, MPI_BYTE, next, 1, in, sizeof in, MPI_BYTE, before, 1, graph, MPI_STATUS_IGNORE);
}

static void between(MPI_Comm half) {
    MPI_Comm inter, all;
    int low = rank % 2, in_half;
    MPI_Comm_rank(half, &in_half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - low, 5, &inter);
    MPI_Sendrecv(out, 601 + rank, MPI_BYTE, in_half, 2, in, sizeof in, MPI_BYTE, in_half, 2, inter, MPI_STATUS_IGNORE);
    MPI_Intercomm_merge(inter, low, &all);
    MPI_Allreduce(out, in, 701, MPI_BYTE, MPI_BOR, all);
    MPI_Comm_free(&inter);
}

/* Only the last three are in it. */
static void some(void) {
    MPI_Group world, last;
    MPI_Comm comm;
    int range[1][3] = {{size - 3, size - 1, 1}};
    if (rank < size - 3) return;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, range, &last);
    MPI_Comm_create_group(MPI_COMM_WORLD, last, 6, &comm);
    MPI_Allreduce(out, in, 809, MPI_BYTE, MPI_BOR, comm);
    MPI_Group_free(&last);
    MPI_Group_free(&world);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm half, own;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_set_name(half, "half");
    mpisee_region_begin("endless");
    without_end(half);
    mpisee_region_end();
    mpisee_region_begin("near");
    neighbours();
    mpisee_region_begin("across");
    between(half);
    mpisee_region_end();
    mpisee_region_end();
    some();
    MPI_Comm_dup(MPI_COMM_SELF, &own);
    for (int time = 0; time < 1 + rank; time++) MPI_Allreduce(out, in, 907, MPI_BYTE, MPI_BOR, own);
    if (argc > 1 && strcmp(argv[1], "kill") == 0) {
        meet();
        raise(SIGKILL);
    }
    MPI_Finalize();
    return 0;
}
