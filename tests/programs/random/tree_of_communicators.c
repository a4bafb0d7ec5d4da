/* Draws a tree of communicators from a seed: every kind of creating call, frees, children of MPI_COMM_SELF, recording
 * switched off on single ranks. All ranks draw the same numbers, so each knows what every communicator must be, also
 * those of others, without asking MPI or the profiler.
 *
 * Each communicator has an id, which no other has. Its members make one MPI_Allreduce of as many bytes on it, so
 * that its name can be found in the profile; and each writes a line `id members|remote members` with world ranks in
 * rank order, as MPI says, into the file members.RANK.
 *
 * Arguments: seed, steps.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 8
#define MOST 500

typedef struct {
    int size, ranks[RANKS]; /* in MPI_COMM_WORLD */
} Set;

typedef struct {
    Set own, remote; /* remote is empty but for an intercommunicator */
    int dims[2];     /* of a Cartesian topology with two dimensions, or 0 */
    int alive;
    MPI_Comm comm;
} Node;

static Node nodes[MOST];
static int count, identified, me, size, idups;
static unsigned long state;
static FILE *lines;

static int draw(int below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)((state >> 11) % (unsigned long)below);
}

static int place_in(const Set *set, int rank) {
    for (int k = 0; k < set->size; k++) {
        if (set->ranks[k] == rank) {
            return k;
        }
    }
    return -1;
}

static int is_inter(const Node *node) {
    return node->remote.size > 0;
}

static int is_member(const Node *node) {
    return place_in(&node->own, me) >= 0 || place_in(&node->remote, me) >= 0;
}

static Node *add(Set own, Set remote, MPI_Comm comm) {
    Node *node = &nodes[count++];
    *node = (Node){.own = own, .remote = remote, .alive = 1, .comm = comm};
    if ((comm != MPI_COMM_NULL) != is_member(node)) {
        fprintf(stderr, "rank %d: communicator %d is not as expected\n", me, count - 1);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return node;
}

static const Set nobody;

/* The members that `pick` has the colour for, by key and then rank. */
static Set coloured(const Set *set, const int *colours, const int *keys, int colour) {
    Set picked = {0};
    for (int key = -9; key < 9; key++) {
        for (int k = 0; k < set->size; k++) {
            if (colours[k] == colour && keys[k] == key) {
                picked.ranks[picked.size++] = set->ranks[k];
            }
        }
    }
    return picked;
}

static void draw_colours(int *colours, int *keys) {
    for (int k = 0; k < RANKS; k++) {
        colours[k] = draw(4) - 1; /* -1: in none */
        keys[k] = draw(7) - 3;
    }
}

static MPI_Group group_of(const Set *set) {
    MPI_Group world, group;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, set->size, set->ranks, &group);
    MPI_Group_free(&world);
    return group;
}

static void write_group(MPI_Group group, const Set *expected) {
    MPI_Group world;
    int found, here[RANKS], there[RANKS];
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_size(group, &found);
    for (int k = 0; k < found; k++) {
        here[k] = k;
    }
    MPI_Group_translate_ranks(group, found, here, world, there);
    for (int k = 0; k < found; k++) {
        fprintf(lines, "%s%d", k ? "," : "", there[k]);
    }
    if (found != expected->size || memcmp(there, expected->ranks, sizeof(int) * (size_t)found) != 0) {
        fprintf(stderr, "rank %d: the members are not as expected\n", me);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Group_free(&world);
    MPI_Group_free(&group);
}

static void identify(int id) {
    static unsigned char out[MOST], in[MOST];
    Node *node = &nodes[id];
    if (!is_member(node)) {
        return;
    }
    int in_own = place_in(&node->own, me) >= 0;
    MPI_Group group;
    fprintf(lines, "%d ", id);
    MPI_Comm_group(node->comm, &group);
    write_group(group, in_own ? &node->own : &node->remote);
    if (is_inter(node)) {
        fprintf(lines, "|");
        MPI_Comm_remote_group(node->comm, &group);
        write_group(group, in_own ? &node->remote : &node->own);
    }
    fprintf(lines, "\n");
    MPI_Allreduce(out, in, id, MPI_BYTE, MPI_BOR, node->comm);
}

static void duplicate(int parent, int how) {
    Node *from = &nodes[parent];
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request;
    if (is_member(from) && how == 0) {
        MPI_Comm_dup(from->comm, &comm);
    } else if (is_member(from) && how == 1) {
        MPI_Comm_dup_with_info(from->comm, MPI_INFO_NULL, &comm);
    } else if (is_member(from)) {
        /* One at a time, and completed before anything else is created: neither Open MPI 4.1 nor MPICH 4.0 bears
           more, also without a profiler. */
        MPI_Comm_idup(from->comm, &comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    Node *node = add(from->own, from->remote, comm);
    memcpy(node->dims, from->dims, sizeof node->dims);
    idups += how == 2;
}

/* By split, split_type, create or create_group: several communicators at once, and some processes in none. */
static void divide(int parent, int how) {
    Node *from = &nodes[parent];
    int colours[RANKS], keys[RANKS], others[RANKS], other_keys[RANKS];
    draw_colours(colours, keys);
    draw_colours(others, other_keys);
    for (int k = 0; k < RANKS && how == 1; k++) {
        colours[k] = colours[k] < 0 ? -1 : 0;
    }
    /* MPICH 4.0 hangs on what a split of an intercommunicator makes where a colour is on one side only. */
    for (int k = 0; k < RANKS && is_inter(from); k++) {
        colours[k] = k == 0 || colours[k] > 0 ? 0 : -1;
        others[k] = k == 0 || others[k] > 0 ? 0 : -1;
    }
    int at = place_in(&from->own, me), there = place_in(&from->remote, me);
    int colour = at >= 0 ? colours[at] : there >= 0 ? others[there] : -1;
    int key = at >= 0 ? keys[at] : there >= 0 ? other_keys[there] : 0;
    MPI_Comm comm = MPI_COMM_NULL;
    Set mine = at >= 0 ? coloured(&from->own, colours, keys, colour) : nobody;
    if (is_member(from)) {
        MPI_Group group = colour < 0 ? MPI_GROUP_EMPTY : group_of(&mine);
        if (how == 0) {
            MPI_Comm_split(from->comm, colour < 0 ? MPI_UNDEFINED : colour, key, &comm);
        } else if (how == 1) {
            MPI_Comm_split_type(from->comm, colour < 0 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, key, MPI_INFO_NULL,
                                &comm);
        } else if (how == 2) {
            MPI_Comm_create(from->comm, group, &comm);
        } else if (colour >= 0) {
            MPI_Comm_create_group(from->comm, group, colour, &comm);
        }
        if (colour >= 0) {
            MPI_Group_free(&group);
        }
    }
    for (int c = 0; c < 3; c++) {
        Set own = coloured(&from->own, colours, keys, c), remote = coloured(&from->remote, others, other_keys, c);
        int is = own.size > 0 && (!is_inter(from) || remote.size > 0);
        if (is) {
            add(own, remote, place_in(&own, me) >= 0 || place_in(&remote, me) >= 0 ? comm : MPI_COMM_NULL);
        }
    }
}

static void create_between(int parent) {
    Node *from = &nodes[parent];
    Set own = {draw(from->own.size) + 1, {0}}, remote = {draw(from->remote.size) + 1, {0}};
    memcpy(own.ranks, from->own.ranks, sizeof own.ranks);
    memcpy(remote.ranks, from->remote.ranks, sizeof remote.ranks);
    MPI_Comm comm = MPI_COMM_NULL;
    if (is_member(from)) {
        MPI_Group group = group_of(place_in(&from->own, me) >= 0 ? &own : &remote);
        MPI_Comm_create(from->comm, group, &comm);
        MPI_Group_free(&group);
    }
    add(own, remote, comm);
}

static void arrange(int parent, int how) {
    Node *from = &nodes[parent];
    int n = from->own.size, rank = place_in(&from->own, me), one = 1;
    int dims[2] = {draw(n) + 1, 0}, periods[2] = {draw(2), draw(2)};
    dims[1] = n / dims[0];
    int fewer = draw(n) + 1, index[RANKS], edges[RANKS], weight = 5;
    int next = (rank + 1) % n, last = (rank + n - 1) % n;
    for (int k = 0; k < fewer; k++) {
        index[k] = k + 1;
        edges[k] = (k + 1) % fewer;
    }
    Set members = from->own;
    members.size = how == 0 ? dims[0] * dims[1] : how == 1 ? fewer : n;
    MPI_Comm comm = MPI_COMM_NULL;
    if (rank >= 0 && how == 0) {
        MPI_Cart_create(from->comm, 2, dims, periods, 0, &comm);
    } else if (rank >= 0 && how == 1) {
        MPI_Graph_create(from->comm, fewer, index, edges, 0, &comm);
    } else if (rank >= 0 && how == 2) {
        MPI_Dist_graph_create(from->comm, 1, &rank, &one, &next, &weight, MPI_INFO_NULL, 0, &comm);
    } else if (rank >= 0) {
        MPI_Dist_graph_create_adjacent(from->comm, 1, &last, &weight, 1, &next, &weight, MPI_INFO_NULL, 0, &comm);
    }
    Node *node = add(members, nobody, comm);
    if (how == 0) {
        memcpy(node->dims, dims, sizeof dims);
    }
}

static void slice(int parent) {
    Node *from = &nodes[parent];
    int keep = draw(2), remain[2] = {keep == 0, keep == 1};
    MPI_Comm comm = MPI_COMM_NULL;
    if (is_member(from)) {
        MPI_Cart_sub(from->comm, remain, &comm);
    }
    for (int c = 0; c < from->dims[1 - keep]; c++) {
        Set members = {0};
        for (int k = 0; k < from->dims[keep]; k++) {
            int rank = keep == 0 ? k * from->dims[1] + c : c * from->dims[1] + k;
            members.ranks[members.size++] = from->own.ranks[rank];
        }
        add(members, nobody, place_in(&members, me) >= 0 ? comm : MPI_COMM_NULL);
    }
}

static void connect(int parent) {
    Node *from = &nodes[parent];
    int n = from->own.size, rank = place_in(&from->own, me), cut = draw(n - 1) + 1;
    Set low = from->own, high = {n - cut, {0}};
    low.size = cut;
    memcpy(high.ranks, from->own.ranks + cut, sizeof(int) * (size_t)high.size);
    int low_leader = draw(cut), high_leader = draw(n - cut);
    MPI_Comm local = MPI_COMM_NULL, between = MPI_COMM_NULL;
    if (rank >= 0) {
        int in_low = rank < cut;
        MPI_Comm_split(from->comm, in_low, 0, &local);
        MPI_Intercomm_create(local, in_low ? low_leader : high_leader, from->comm,
                             in_low ? cut + high_leader : low_leader, 17, &between);
    }
    add(low, nobody, rank >= 0 && rank < cut ? local : MPI_COMM_NULL);
    add(high, nobody, rank >= cut ? local : MPI_COMM_NULL);
    add(low, high, between);
}

static void merge(int parent) {
    Node *from = &nodes[parent];
    int high = draw(2);
    const Set *first = high ? &from->remote : &from->own, *second = high ? &from->own : &from->remote;
    MPI_Comm comm = MPI_COMM_NULL;
    if (is_member(from)) {
        MPI_Intercomm_merge(from->comm, place_in(&from->own, me) >= 0 ? high : !high, &comm);
    }
    Set all = *first;
    for (int k = 0; k < second->size; k++) {
        all.ranks[all.size++] = second->ranks[k];
    }
    add(all, nobody, comm);
}

static void let_go(int id) {
    Node *node = &nodes[id];
    if (id > size) { /* not one of MPI's own */
        if (is_member(node)) {
            MPI_Comm_free(&node->comm);
        }
        node->alive = 0;
    }
}

static int pick(void) {
    int id;
    do {
        id = draw(count);
    } while (!nodes[id].alive);
    return id;
}

static void step(void) {
    int id = pick(), what = draw(20);
    for (int other = 2; other > 0; other--) { /* rather a larger one */
        int second = pick();
        id = nodes[second].own.size > nodes[id].own.size ? second : id;
    }
    int inter = is_inter(&nodes[id]), n = nodes[id].own.size;
    if (what < 5) {
        duplicate(id, what < 2 ? what : 2);
    } else if (what < 8) {
        divide(id, 0);
    } else if (inter && what < 11) {
        create_between(id);
    } else if (inter && what < 18) {
        merge(id);
    } else if (what < 11) {
        divide(id, what - 7);
    } else if (what < 13 && nodes[id].dims[0]) {
        slice(id);
    } else if (what < 14 && n > 1) {
        connect(id);
    } else if (what < 18) {
        /* Open MPI 4.1 hangs in MPI_Dist_graph_create after an idup, also without a profiler. */
        arrange(id, what == 16 && idups ? 3 : what - 14);
    } else {
        let_go(id);
    }
}

int main(int argc, char **argv) {
    char name[32];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    state = strtoul(argv[1], NULL, 10) * 0x9e3779b97f4a7c15 + 1;
    int steps = argc > 2 ? atoi(argv[2]) : 0;
    snprintf(name, sizeof name, "members.%d", me);
    lines = fopen(name, "w");
    Set all = {size, {0, 1, 2, 3, 4, 5, 6, 7}};
    add(all, nobody, MPI_COMM_WORLD);
    for (int k = 0; k < size; k++) {
        Set alone = {1, {k}};
        add(alone, nobody, k == me ? MPI_COMM_SELF : MPI_COMM_NULL);
    }
    for (int k = 0; k < steps && count < MOST - 20; k++) {
        MPI_Pcontrol(draw(3 * size) != me);
        step();
        MPI_Pcontrol(1);
        while (identified < count) {
            identify(identified++);
        }
    }
    fclose(lines);
    MPI_Finalize();
    return 0;
}
