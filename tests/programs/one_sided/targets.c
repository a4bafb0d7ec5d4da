/* One-sided operations on random targets, on windows of several communicators. Each rank keeps its own books by the
 * target's rank in MPI_COMM_WORLD, and prints them. */
#include "program.h"

enum { MOST_RANKS = 8, LONGEST = 4096, OPERATIONS = 300 };

struct books {
    long long puts, put_bytes, gets, get_bytes, accumulates, accumulate_bytes;
};

static unsigned seed;

static int below(int limit) {
    seed = seed * 1103515245 + 12345;
    return (int)((seed >> 8) % (unsigned)limit);
}

static void count(long long *number, long long *bytes, long long more) {
    *number += 1;
    *bytes += more;
}

/* One operation. The places of different origins are apart, so that no two accesses conflict. */
static void access_target(MPI_Win win, int target, MPI_Aint place, struct books *books) {
    static char data[LONGEST], result[LONGEST];
    MPI_Request request;
    int bytes = below(LONGEST), ints = below(LONGEST / 4), kind = below(10);
    switch (kind) {
    case 0:
        MPI_Put(data, bytes, MPI_BYTE, target, place, bytes, MPI_BYTE, win);
        count(&books->puts, &books->put_bytes, bytes);
        break;
    case 1:
        MPI_Get(result, bytes, MPI_BYTE, target, place, bytes, MPI_BYTE, win);
        count(&books->gets, &books->get_bytes, bytes);
        break;
    case 2:
        MPI_Accumulate(data, ints, MPI_INT, target, place, ints, MPI_INT, MPI_SUM, win);
        count(&books->accumulates, &books->accumulate_bytes, 4LL * ints);
        break;
    case 3:
        MPI_Get_accumulate(data, ints, MPI_INT, result, ints, MPI_INT, target, place, ints, MPI_INT, MPI_SUM, win);
        count(&books->accumulates, &books->accumulate_bytes, 4LL * ints);
        break;
    case 4:
        MPI_Fetch_and_op(data, result, MPI_INT, target, place, MPI_SUM, win);
        count(&books->accumulates, &books->accumulate_bytes, 4);
        break;
    case 5:
        MPI_Compare_and_swap(data, data + 8, result, MPI_INT, target, place, win);
        count(&books->accumulates, &books->accumulate_bytes, 4);
        break;
    case 6:
        MPI_Rput(data, bytes, MPI_BYTE, target, place, bytes, MPI_BYTE, win, &request);
        count(&books->puts, &books->put_bytes, bytes);
        break;
    case 7:
        MPI_Rget(result, bytes, MPI_BYTE, target, place, bytes, MPI_BYTE, win, &request);
        count(&books->gets, &books->get_bytes, bytes);
        break;
    case 8:
        MPI_Raccumulate(data, ints, MPI_INT, target, place, ints, MPI_INT, MPI_SUM, win, &request);
        count(&books->accumulates, &books->accumulate_bytes, 4LL * ints);
        break;
    default:
        MPI_Rget_accumulate(NULL, 0, MPI_INT, result, ints, MPI_INT, target, place, ints, MPI_INT, MPI_NO_OP, win,
                            &request);
        count(&books->accumulates, &books->accumulate_bytes, 4LL * ints);
    }
    if (kind >= 6) MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (target != MPI_PROC_NULL) MPI_Win_flush(target, win);
}

/* Accesses on a window of `comm`, which is freed before if it is not the world. */
static void on_window(MPI_Comm comm, const char *name) {
    struct books books[MOST_RANKS] = {{0}}, nowhere;
    int members, me, in_comm[MOST_RANKS], in_world[MOST_RANKS];
    char *base;
    MPI_Win win;
    MPI_Group group, world;
    MPI_Comm_size(comm, &members);
    MPI_Comm_rank(comm, &me);
    MPI_Comm_group(comm, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < members; i++) in_comm[i] = i;
    MPI_Group_translate_ranks(group, members, in_comm, world, in_world);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    MPI_Win_allocate(MOST_RANKS * LONGEST, 1, MPI_INFO_NULL, comm, &base, &win);
    if (comm != MPI_COMM_WORLD) MPI_Comm_free(&comm);
    memset(base, 0, MOST_RANKS * LONGEST);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < OPERATIONS; i++) {
        int target = below(members + 1);
        if (target == members)
            access_target(win, MPI_PROC_NULL, 0, &nowhere);
        else
            access_target(win, target, (MPI_Aint)me * LONGEST, &books[in_world[target]]);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    for (int peer = 0; peer < size; peer++) {
        struct books *own = &books[peer];
        printf("books %s %d %d %lld %lld %lld %lld %lld %lld\n", name, rank, peer, own->puts, own->put_bytes, own->gets,
               own->get_bytes, own->accumulates, own->accumulate_bytes);
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(size <= MOST_RANKS);
    seed = 77 + rank;
    MPI_Comm backward, twin;
    on_window(MPI_COMM_WORLD, "W");
    MPI_Comm_split(MPI_COMM_WORLD, 0, (rank * 5 + 3) % 7, &backward);
    MPI_Comm_dup(backward, &twin);
    on_window(twin, "W_s1.0_d1");
    on_window(backward, "W_s1.0");
    /* Where all share a row, as of changing members, the window's is one of those, too. */
    for (int turn = 2; turn <= 4; turn++) {
        MPI_Comm shifted;
        char name[32];
        MPI_Comm_split(MPI_COMM_WORLD, 0, (rank + turn) % size, &shifted);
        MPI_Comm_dup(shifted, &twin);
        MPI_Comm_free(&shifted);
        snprintf(name, sizeof name, "W_s%d.0_d1", turn);
        on_window(twin, name);
    }
    MPI_Finalize();
    return 0;
}
