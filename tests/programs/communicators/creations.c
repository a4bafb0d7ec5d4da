/* Every call that creates a communicator, in a fixed order on five processes; each communicator is labelled with
 * what it is. The names are in tests/communicators.rs.
 */
#include <mpi.h>

static int rank;

static void label(MPI_Comm comm, const char *name) {
    if (comm != MPI_COMM_NULL) {
        MPI_Comm_set_name(comm, name);
    }
}

static MPI_Group group_of(int count, const int *ranks) {
    MPI_Group world, group;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, count, ranks, &group);
    MPI_Group_free(&world);
    return group;
}

static void intracommunicators(void) {
    MPI_Comm comm, inner;
    MPI_Request request;
    MPI_Info info;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    label(comm, "dup");
    MPI_Comm_free(&comm);

    MPI_Info_create(&info);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Info_free(&info);
    label(comm, "dup with info");

    /* {0, 3} and {4, 1} with the larger ranks first; process 2 has none. */
    MPI_Comm_split(MPI_COMM_WORLD, rank == 2 ? MPI_UNDEFINED : rank % 3 == 0, -rank, &comm);
    label(comm, rank % 3 == 0 ? "split of 0 and 3" : "split of 1 and 4");

    MPI_Comm_split_type(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
    label(comm, "split type");

    /* Disjoint groups at once. */
    MPI_Group group = rank % 2 == 0 ? group_of(2, (int[]){4, 2}) : group_of(2, (int[]){1, 3});
    MPI_Comm_create(MPI_COMM_WORLD, rank == 0 ? MPI_GROUP_EMPTY : group, &comm);
    label(comm, rank % 2 == 0 ? "create of 4 and 2" : "create of 1 and 3");
    MPI_Group_free(&group);

    /* Disjoint groups, each by itself; process 0 is not even in the call. */
    if (rank > 0) {
        group = rank % 2 == 0 ? group_of(2, (int[]){2, 4}) : group_of(2, (int[]){1, 3});
        MPI_Comm_create_group(MPI_COMM_WORLD, group, 7, &comm);
        label(comm, rank % 2 == 0 ? "create group of 2 and 4" : "create group of 1 and 3");
        MPI_Group_free(&group);
    }

    /* Process 4 is left over. */
    MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){2, 2}, (int[]){1, 0}, 0, &comm);
    label(comm, "cart");
    if (comm != MPI_COMM_NULL) {
        MPI_Cart_sub(comm, (int[]){0, 1}, &inner);
        label(inner, rank < 2 ? "first row" : "second row");
    }

    MPI_Graph_create(MPI_COMM_WORLD, 4, (int[]){3, 5, 7, 8}, (int[]){1, 2, 3, 0, 2, 0, 1, 0}, 1, &comm);
    label(comm, "graph");

    int next = (rank + 1) % 5, last = (rank + 4) % 5, one = 1, weight = 3;
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &one, &next, &weight, MPI_INFO_NULL, 0, &comm);
    label(comm, "dist graph");
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &last, &weight, 1, &next, &weight, MPI_INFO_NULL, 1, &comm);
    label(comm, "dist graph adjacent");

    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    label(comm, "dup of self");

    /* After the topologies: Open MPI 4.1 hangs in MPI_Dist_graph_create after one, also without a profiler. */
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    label(comm, "idup");
}

static void intercommunicators(void) {
    MPI_Comm local, between, comm;
    MPI_Request request;
    int low = rank == 1 || rank == 2;
    MPI_Comm_split(MPI_COMM_WORLD, low, 0, &local);
    label(local, low ? "1 and 2" : "0, 3 and 4");
    /* The leaders: process 4, which is the last of its group, and process 1. */
    MPI_Intercomm_create(local, low ? 0 : 2, MPI_COMM_WORLD, low ? 4 : 1, 11, &between);
    label(between, "between");

    MPI_Comm_dup(between, &comm);
    label(comm, "dup of between");
    MPI_Comm_idup(between, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    label(comm, "idup of between");
    /* Process 1 with 3 and 4, and process 2 with 0. */
    int with_one = rank == 1 || rank >= 3;
    MPI_Comm_split(between, with_one, 0, &comm);
    label(comm, with_one ? "1 with 3 and 4" : "2 with 0");

    /* Process 2 with 0 and 4. */
    MPI_Group all, some;
    MPI_Comm_group(between, &all);
    MPI_Group_incl(all, low ? 1 : 2, low ? (int[]){1, 0} : (int[]){0, 2}, &some);
    MPI_Comm_create(between, some, &comm);
    label(comm, "2 with 0 and 4");
    MPI_Group_free(&some);
    MPI_Group_free(&all);

    MPI_Intercomm_merge(between, !low, &comm);
    label(comm, "merged");
    MPI_Comm_free(&between);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    label(MPI_COMM_WORLD, "all");
    intracommunicators();
    intercommunicators();
    MPI_Finalize();
    return 0;
}
