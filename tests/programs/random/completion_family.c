/* The whole family of waits and tests, in a random order that is the same in every run, on random requests of three
 * communicators: null, inactive, active, of sends and receives, persistent or not, with statuses or without. The
 * program works out which calls and bytes belong to which communicator and prints them.
 *
 *   completion_family BYTES [moved]    moved: requests are handed over in other places than they were stored in */
#include "program.h"

enum { COMMS = 3, PERSISTENT = 2 * COMMS, SLOTS = 40, STEPS = 3000, MOST = 12, SPREAD = 97 };
enum call { ISEND, IRECV, SEND_INIT, RECV_INIT, START, STARTALL, FREE, WAIT, WAITALL, WAITANY, WAITSOME, TEST,
            TESTALL, TESTANY, TESTSOME, CALLS };
static const char *const call_names[CALLS] = {
    "MPI_Isend", "MPI_Irecv",   "MPI_Send_init", "MPI_Recv_init", "MPI_Start", "MPI_Startall", "MPI_Request_free", "MPI_Wait",
    "MPI_Waitall", "MPI_Waitany", "MPI_Waitsome", "MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome"};
static const char *const comm_names[COMMS] = {"W", "W_d1", "W_d2"};

/* Kinds of a slot's request. */
struct open {
    int comm, active, receive, tag, bytes;
};

static MPI_Comm comms[COMMS];
static MPI_Request requests[SLOTS];
static struct open known[SLOTS];
static char *data[SLOTS];
static long calls[COMMS][CALLS], bytes[COMMS][CALLS], of_nothing;
static int peer, room;

static unsigned next(unsigned *state, unsigned below) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % below;
}

static void count(int comm, enum call call, long moved) {
    calls[comm][call]++;
    bytes[comm][call] += moved;
}

/* Counts a completion call on the communicators whose bits are set. */
static void charge(enum call call, unsigned which) {
    for (int comm = 0; comm < COMMS; comm++)
        if (which >> comm & 1) count(comm, call, 0);
    if (which == 0) of_nothing++;
}

/* The request in `slot` completed; returns the bit of its communicator. */
static unsigned completed(int slot, const MPI_Status *status) {
    struct open *open = &known[slot];
    if (!open->active) {
        if (status) expect_empty(status);
        return 0;
    }
    if (open->receive && status) expect_status(status, peer, open->tag, open->bytes);
    open->active = 0;
    EXPECT((requests[slot] == MPI_REQUEST_NULL) == (slot >= PERSISTENT));
    return 1u << open->comm;
}

/* Makes one call on `n` requests, which lie in `given` and belong to `slots`. */
static void complete(enum call call, int n, MPI_Request *given, const int *slots, int ignore) {
    MPI_Status own[SLOTS], *statuses = ignore ? MPI_STATUSES_IGNORE : own;
    int indices[SLOTS], index = -1, flag = 1, done = 0;
    unsigned charged = 0, asked = 0;
    for (int i = 0; i < n; i++)
        if (known[slots[i]].active) asked |= 1u << known[slots[i]].comm;
    switch (call) {
    case WAIT: MPI_Wait(given, ignore ? MPI_STATUS_IGNORE : own); break;
    case TEST: MPI_Test(given, &flag, ignore ? MPI_STATUS_IGNORE : own); break;
    case WAITALL: MPI_Waitall(n, given, statuses); break;
    case TESTALL: MPI_Testall(n, given, &flag, statuses); break;
    case WAITANY: MPI_Waitany(n, given, &index, ignore ? MPI_STATUS_IGNORE : own); break;
    case TESTANY: MPI_Testany(n, given, &index, &flag, ignore ? MPI_STATUS_IGNORE : own); break;
    case WAITSOME: MPI_Waitsome(n, given, &done, indices, statuses); break;
    case TESTSOME: MPI_Testsome(n, given, &done, indices, statuses); break;
    default: EXPECT(0);
    }
    for (int i = 0; i < n; i++) requests[slots[i]] = given[i];
    if (call == WAITSOME || call == TESTSOME) {
        EXPECT((done == MPI_UNDEFINED) == (asked == 0));
        for (int i = 0; i < done; i++) charged |= completed(slots[indices[i]], ignore ? NULL : &own[i]);
        flag = done != 0;
    } else if (call == WAITANY || call == TESTANY) {
        EXPECT(!flag || (index == MPI_UNDEFINED) == (asked == 0));
        if (flag && index != MPI_UNDEFINED) charged = completed(slots[index], ignore ? NULL : own);
    } else if (flag) {
        for (int i = 0; i < n; i++) charged |= completed(slots[i], ignore ? NULL : &own[i]);
    }
    charge(call, flag ? charged : asked);
}

static int all_slots[SLOTS];

static int free_slot(void) {
    for (;;) {
        for (int slot = PERSISTENT; slot < SLOTS; slot++)
            if (!known[slot].active && requests[slot] == MPI_REQUEST_NULL) return slot;
        complete(WAITALL, SLOTS, requests, all_slots, 1);
    }
}

static void start_pair(int comm, int tag, int length) {
    int in = free_slot();
    MPI_Irecv(data[in], room, MPI_BYTE, peer, tag, comms[comm], &requests[in]);
    known[in] = (struct open){comm, 1, 1, tag, length};
    count(comm, IRECV, length);
    int out = free_slot();
    MPI_Isend(data[out], length, MPI_BYTE, peer, tag, comms[comm], &requests[out]);
    known[out] = (struct open){comm, 1, 0, tag, length};
    count(comm, ISEND, length);
}

static void start_persistent(int comm, int together) {
    int in = 2 * comm, out = in + 1;
    for (int slot = in; slot <= out; slot++)
        if (known[slot].active) complete(WAIT, 1, &requests[slot], &slot, 0);
    int length = known[in].bytes;
    known[in].active = known[out].active = 1;
    if (together) {
        MPI_Startall(2, &requests[in]);
        count(comm, STARTALL, 2 * length);
    } else {
        MPI_Start(&requests[in]);
        count(comm, START, length);
        MPI_Start(&requests[out]);
        count(comm, START, length);
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int least = atoi(argv[1]), moved = argc > 2;
    peer = size - 1 - rank;
    room = 2 * (least + SPREAD);
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]);
    for (int slot = 0; slot < SLOTS; slot++) {
        all_slots[slot] = slot;
        requests[slot] = MPI_REQUEST_NULL;
        data[slot] = malloc(room);
    }
    for (int comm = 0; comm < COMMS; comm++) {
        int in = 2 * comm, out = in + 1, length = least + comm, tag = 32000;
        MPI_Recv_init(data[in], room, MPI_BYTE, peer, tag, comms[comm], &requests[in]);
        MPI_Send_init(data[out], length, MPI_BYTE, peer, tag, comms[comm], &requests[out]);
        known[in] = (struct open){comm, 0, 1, tag, length};
        known[out] = (struct open){comm, 0, 0, tag, length};
        count(comm, RECV_INIT, 0);
        count(comm, SEND_INIT, 0);
    }
    /* Both sides must draw the same messages; how they complete them may differ. */
    unsigned common = 17, own = 29 + rank;
    for (int step = 0; step < STEPS; step++) {
        int comm = next(&common, COMMS), what = next(&common, 8), variant = next(&common, SPREAD);
        if (what < 2) {
            start_pair(comm, step, least + variant);
        } else if (what == 2) {
            start_persistent(comm, variant % 2);
        } else {
            enum call call = WAIT + next(&own, CALLS - WAIT);
            int n = call == WAIT || call == TEST ? 1 : (int)next(&own, MOST), slots[MOST];
            int first = next(&own, SLOTS - MOST);
            for (int i = 0; i < n; i++) slots[i] = first + i;
            if (!moved) {
                complete(call, n, &requests[first], slots, next(&own, 2));
            } else {
                MPI_Request given[MOST];
                for (int i = 0; i < n; i++) slots[i] = first + (5 * i + 3) % MOST;
                for (int i = 0; i < n; i++) given[i] = requests[slots[i]];
                complete(call, n, given, slots, next(&own, 2));
            }
        }
    }
    complete(WAITALL, SLOTS, requests, all_slots, 0);
    for (int slot = 0; slot < PERSISTENT; slot++) {
        count(known[slot].comm, FREE, 0);
        MPI_Request_free(&requests[slot]);
    }
    for (int comm = 0; comm < COMMS; comm++)
        for (int call = 0; call < CALLS; call++)
            if (calls[comm][call])
                printf("%d %s %s %ld %ld\n", rank, comm_names[comm], call_names[call], calls[comm][call], bytes[comm][call]);
    printf("of nothing %ld\n", of_nothing);
    MPI_Comm_free(&comms[1]);
    MPI_Comm_free(&comms[2]);
    MPI_Finalize();
    return 0;
}
