/* Communicators whose ranks have no order in the world, on 8 ranks: each process sends each other one a message, of which
 * no two have the same size. With
 * "kill" all end in the middle of it, by SIGKILL; with "wait" all but rank 3 wait for it, as long as it takes. */
#include "program.h"
#include <signal.h>
#include <unistd.h>

enum { MOST = 1 << 16 };
static char in[8][MOST], out[MOST];
static int base;

/* To every process of the other side, and from every one by a receive that takes whatever comes first. */
static void all_to_all(MPI_Comm comm) {
    MPI_Request requests[16];
    int inter, peers, me, count = 0;
    MPI_Comm_test_inter(comm, &inter);
    MPI_Comm_rank(comm, &me);
    if (inter)
        MPI_Comm_remote_size(comm, &peers);
    else
        MPI_Comm_size(comm, &peers);
    base += 64;
    for (int peer = 0; peer < peers; peer++)
        MPI_Irecv(in[peer], MOST, MPI_BYTE, MPI_ANY_SOURCE, base, comm, &requests[count++]);
    for (int peer = 0; peer < peers; peer++)
        MPI_Isend(out, base * 8 + rank * 8 + peer, MPI_BYTE, peer, base, comm, &requests[count++]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(size == 8);
    static const int key[] = {5, 2, 7, 0, 6, 1, 4, 3}, colour[] = {0, 1, 1, 0, 1, 0, 0, 1};
    MPI_Comm shuffled, twin, half, part, both, copy;
    MPI_Comm_split(MPI_COMM_WORLD, 0, key[rank], &shuffled);
    all_to_all(shuffled);
    if (argc > 1 && !strcmp(argv[1], "wait")) {
        if (rank == 3)
            pause();
        MPI_Barrier(shuffled);
    }
    /* Like communicators, which share a row where the limit is low. */
    for (int i = 0; i < 3; i++) {
        MPI_Comm_dup(shuffled, &twin);
        all_to_all(twin);
        MPI_Comm_free(&twin);
    }
    MPI_Comm_split(shuffled, colour[rank], -key[rank] * key[rank] % 11, &half);
    all_to_all(half);
    if (argc > 1) {
        MPI_Barrier(MPI_COMM_WORLD);
        raise(SIGKILL);
    }
    MPI_Comm_split(half, key[rank] % 2, rank, &part);
    all_to_all(part);
    int me, groups[2];
    MPI_Comm_rank(half, &me);
    /* The leaders are the first of each half; all ranks tell who they are. */
    int leader = me == 0 ? rank : -1, leaders[8];
    MPI_Allgather(&leader, 1, MPI_INT, leaders, 1, MPI_INT, MPI_COMM_WORLD);
    for (int other = 0; other < 8; other++)
        if (leaders[other] >= 0)
            groups[colour[other]] = other;
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, groups[1 - colour[rank]], 3, &both);
    all_to_all(both);
    MPI_Comm_dup(both, &copy);
    all_to_all(copy);
    /* Freed with a receive open, whose sender has sent nothing on it before: each sends to the next in the shuffled order. */
    MPI_Request open;
    int place;
    MPI_Comm_dup(shuffled, &twin);
    MPI_Comm_rank(twin, &place);
    MPI_Irecv(in[0], MOST, MPI_BYTE, MPI_ANY_SOURCE, 9, twin, &open);
    MPI_Barrier(twin);
    MPI_Send(out, 40001 + rank, MPI_BYTE, (place + 1) % 8, 9, twin);
    MPI_Comm_free(&twin);
    MPI_Wait(&open, MPI_STATUS_IGNORE);
    /* A window goes on when its communicator is freed. */
    MPI_Win window;
    int *memory;
    MPI_Comm_dup(shuffled, &twin);
    MPI_Win_allocate(sizeof(int) * 64, 1, MPI_INFO_NULL, twin, &memory, &window);
    MPI_Comm_free(&twin);
    MPI_Win_fence(0, window);
    MPI_Put(out, 11 + rank, MPI_BYTE, (place + 3) % 8, 0, 11 + rank, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&both);
    MPI_Comm_free(&part);
    MPI_Comm_free(&half);
    MPI_Comm_free(&shuffled);
    MPI_Finalize();
    return 0;
}
