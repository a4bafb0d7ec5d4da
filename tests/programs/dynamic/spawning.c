/* Two ranks spawn three processes of this program, with the command that the arguments are, and talk to them over
 * the intercommunicator, over what is merged from it, and over what is made of that. Sizes are unique. */
#include "program.h"

enum { PARENTS = 2, CHILDREN = 3 };

static char data[16384];

/* Both sides talk over the intercommunicator: each process to one of the other group, and all of them. */
static void over(MPI_Comm inter, int is_child) {
    MPI_Status status;
    int base = is_child ? 2000 : 1000;
    if (rank < PARENTS) {
        MPI_Send(data, base + rank, MPI_BYTE, rank, 7, inter);
        MPI_Recv(data, sizeof data, MPI_BYTE, rank, 7, inter, &status);
        expect_status(&status, rank, 7, (is_child ? 1000 : 2000) + rank);
    }
    if (is_child && rank == 2) MPI_Send(data, 2003, MPI_BYTE, 0, 8, inter);
    if (!is_child && rank == 0) {
        /* MPI_ANY_SOURCE finds nothing here under MPICH 5.0. */
        MPI_Recv(data, sizeof data, MPI_BYTE, 2, 8, inter, &status);
        expect_status(&status, 2, 8, 2003);
    }
    int root = is_child ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    MPI_Bcast(data, 3001, MPI_BYTE, root, inter);
}

/* All five in one communicator: parents first. */
static void merged(MPI_Comm inter, int is_child) {
    MPI_Comm all, again, part, inside;
    MPI_Status status;
    MPI_Intercomm_merge(inter, is_child, &all);
    MPI_Comm_set_name(all, "both worlds");
    int me, count;
    MPI_Comm_rank(all, &me);
    MPI_Comm_size(all, &count);
    EXPECT(count == PARENTS + CHILDREN);
    EXPECT(me == (is_child ? PARENTS + rank : rank));
    MPI_Sendrecv(data, 4000 + me, MPI_BYTE, (me + 1) % 5, 9, data + 5000, 5000, MPI_BYTE, (me + 4) % 5, 9, all,
                 &status);
    expect_status(&status, (me + 4) % 5, 9, 4000 + (me + 4) % 5);
    MPI_Comm_dup(all, &again);
    MPI_Allreduce(MPI_IN_PLACE, data, 53, MPI_INT, MPI_MAX, again);
    /* One part has processes of both worlds, the other of one. */
    MPI_Comm_split(again, me == 4, -me, &part);
    MPI_Comm_size(part, &count);
    EXPECT(count == (me == 4 ? 1 : 4));
    MPI_Bcast(data, 59, MPI_BYTE, 0, part);
    /* Each world has its own again. */
    MPI_Comm_split(again, is_child, 0, &inside);
    MPI_Comm_size(inside, &count);
    EXPECT(count == (is_child ? CHILDREN : PARENTS));
    MPI_Sendrecv(data, 61, MPI_BYTE, (rank + 1) % count, 1, data + 5000, 61, MPI_BYTE, (rank + count - 1) % count, 1,
                 inside, MPI_STATUS_IGNORE);
    MPI_Comm below;
    MPI_Comm_dup(inside, &below);
    MPI_Barrier(below);
    MPI_Comm_free(&below);
    MPI_Comm_free(&inside);
    MPI_Comm_free(&part);
    MPI_Comm_free(&again);
    MPI_Comm_free(&all);
}

/* Other calls that are to be named without a word to the other world. */
static void others(MPI_Comm inter, int is_child) {
    MPI_Comm all, later, between, few;
    MPI_Request request;
    MPI_Intercomm_merge(inter, !is_child, &all);
    int me;
    MPI_Comm_rank(all, &me);
    MPI_Comm_idup(all, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, data, 67, MPI_BYTE, later);
    /* Between the worlds once more, through leaders in the merged communicator: children come first there. */
    MPI_Intercomm_create(MPI_COMM_WORLD, 0, all, is_child ? CHILDREN : 0, 5, &between);
    if (rank == 1) MPI_Send(data, 71, MPI_BYTE, 1, 3, between);
    if (rank == 1) MPI_Recv(data, 71, MPI_BYTE, 1, 3, between, MPI_STATUS_IGNORE);
    /* A group of both worlds, made by its members alone. */
    MPI_Group group, two;
    MPI_Comm_group(all, &group);
    MPI_Group_incl(group, 2, (int[]){0, CHILDREN}, &two);
    if (rank == 0) {
        MPI_Comm_create_group(all, two, 11, &few);
        MPI_Barrier(few);
        MPI_Comm_free(&few);
    }
    MPI_Group_free(&two);
    MPI_Group_free(&group);
    MPI_Comm_free(&between);
    MPI_Comm_free(&later);
    MPI_Comm_free(&all);
}

int main(int argc, char **argv) {
    MPI_Comm inter;
    begin(&argc, &argv);
    MPI_Comm_get_parent(&inter);
    int is_child = inter != MPI_COMM_NULL;
    if (!is_child) {
        int codes[CHILDREN];
        EXPECT(argc > 1 && size == PARENTS);
        MPI_Comm_spawn(argv[1], argc > 2 ? argv + 2 : MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 1, MPI_COMM_WORLD, &inter,
                       codes);
    }
    int remote;
    MPI_Comm_remote_size(inter, &remote);
    EXPECT(remote == (is_child ? PARENTS : CHILDREN) && size == (is_child ? CHILDREN : PARENTS));
    over(inter, is_child);
    merged(inter, is_child);
    others(inter, is_child);
    MPI_Comm_disconnect(&inter);
    EXPECT(inter == MPI_COMM_NULL);
    if (is_child) MPI_Allreduce(MPI_IN_PLACE, data, 73, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    if (rank == 0) puts(is_child ? "children are well" : "parents are well");
    MPI_Finalize();
    return 0;
}
