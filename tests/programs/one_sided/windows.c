/* Windows on several communicators, with every way to make one, to synchronise and to access. One communicator is
 * freed before its window is used. */
#include "program.h"

enum { ROOM = 30011 };
static char memory[ROOM], data[ROOM], result[ROOM];

/* Active target: fences, and post, start, complete, wait between the first two ranks. */
static void active(void) {
    MPI_Win win;
    MPI_Win_create(memory, ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    int next = (rank + 1) % size;
    MPI_Datatype every_other;
    MPI_Type_vector(89, 1, 2, MPI_DOUBLE, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Win_fence(0, win);
    MPI_Put(data, 1009 + rank, MPI_BYTE, next, 0, 1009 + rank, MPI_BYTE, win);
    MPI_Put(data, 1, every_other, next, 2000, 1, every_other, win);
    MPI_Put(data, 7, MPI_DOUBLE, MPI_PROC_NULL, 0, 7, MPI_DOUBLE, win);
    MPI_Win_fence(0, win);
    memset(result, 1, ROOM);
    MPI_Get(result, 2003, MPI_BYTE, next, 4000, 2003, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    EXPECT(result[0] == 0 && result[2002] == 0 && result[2003] == 1);
    MPI_Type_free(&every_other);
    MPI_Group world, other;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int partner = 1 - rank, tests = 0, flag = 0;
    if (rank < 2) MPI_Group_incl(world, 1, &partner, &other);
    for (int round = 0; rank < 2 && round < 2; round++) {
        if (rank == 0) {
            MPI_Win_start(other, 0, win);
            MPI_Accumulate(data, 307, MPI_INT, 1, 0, 307, MPI_INT, MPI_SUM, win);
            MPI_Win_complete(win);
        } else {
            MPI_Win_post(other, 0, win);
            if (round == 0) MPI_Win_wait(win);
            for (; round == 1 && !flag; tests++) MPI_Win_test(win, &flag);
        }
    }
    if (rank == 1) printf("tests %d\n", tests);
    if (rank < 2) MPI_Group_free(&other);
    MPI_Group_free(&world);
    MPI_Win_free(&win);
    EXPECT(win == MPI_WIN_NULL);
}

/* Passive target, with requests too. */
static void passive(void) {
    MPI_Comm half;
    MPI_Win win;
    MPI_Request requests[4];
    char *base;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    /* One half after the other: Open MPI 4.1 names the memory of a window by a number that both have. */
    for (int turn = 0; turn < 2; turn++) {
        if (rank % 2 == turn) MPI_Win_allocate(ROOM, 1, MPI_INFO_NULL, half, &base, &win);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Comm_free(&half);
    memset(base, 0, ROOM);
    int me = rank / 2, other = 1 - me;
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win);
        MPI_Put(data, 401, MPI_BYTE, other, 0, 401, MPI_BYTE, win);
        MPI_Win_flush(other, win);
        MPI_Get(result, 409, MPI_BYTE, other, 0, 409, MPI_BYTE, win);
        MPI_Win_flush_local(other, win);
        MPI_Win_unlock(other, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    MPI_Accumulate(data, 101, MPI_INT, other, 0, 101, MPI_INT, MPI_SUM, win);
    MPI_Win_flush_all(win);
    MPI_Get_accumulate(data, 103, MPI_INT, result, 103, MPI_INT, other, 0, 103, MPI_INT, MPI_SUM, win);
    MPI_Get_accumulate(NULL, 0, MPI_INT, result, 211, MPI_INT, other, 0, 211, MPI_INT, MPI_NO_OP, win);
    MPI_Win_flush(other, win);
    MPI_Fetch_and_op(data, result, MPI_LONG, other, 8000, MPI_SUM, win);
    MPI_Win_flush_local_all(win);
    MPI_Compare_and_swap(data, data + 100, result, MPI_INT, other, 9000, win);
    MPI_Compare_and_swap(data, data + 100, result, MPI_INT, MPI_PROC_NULL, 9000, win);
    MPI_Win_flush(other, win);
    MPI_Rput(data, 503, MPI_BYTE, other, 10000, 503, MPI_BYTE, win, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Rget(result, 509, MPI_BYTE, other, 12000, 509, MPI_BYTE, win, &requests[0]);
    MPI_Raccumulate(data, 113, MPI_INT, other, 16000, 113, MPI_INT, MPI_SUM, win, &requests[1]);
    MPI_Rget_accumulate(data, 127, MPI_INT, result + 8000, 127, MPI_INT, other, 20000, 127, MPI_INT, MPI_SUM, win,
                        &requests[2]);
    MPI_Rput(data, 523, MPI_BYTE, MPI_PROC_NULL, 0, 523, MPI_BYTE, win, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Win_sync(win);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* The other ways to make a window. */
static void made_otherwise(void) {
    MPI_Win win;
    MPI_Comm dup;
    char *base;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, dup, &base, &win);
    MPI_Win_lock_all(0, win);
    base[0] = 1;
    MPI_Win_sync(win);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Comm_free(&dup);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_attach(win, memory, ROOM);
    MPI_Win_detach(win, memory);
    MPI_Win_free(&win);
}

/* A window made through PMPI belongs to no communicator. */
static void unknown(void) {
    MPI_Win win;
    PMPI_Win_create(memory, ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(data, 61, MPI_BYTE, rank, 0, 61, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

/* A window is known, too, that is made while recording is off. */
static void made_while_off(void) {
    MPI_Win win;
    MPI_Pcontrol(0);
    MPI_Win_create(memory, ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Pcontrol(1);
    MPI_Put(data, 71, MPI_BYTE, rank, 0, 71, MPI_BYTE, win);
    MPI_Pcontrol(0);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Pcontrol(1);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    const char *part = argc > 1 ? argv[1] : "";
    if (!strcmp(part, "unknown"))
        unknown();
    else if (!strcmp(part, "off"))
        made_while_off();
    else {
        active();
        passive();
        made_otherwise();
    }
    MPI_Finalize();
    return 0;
}
