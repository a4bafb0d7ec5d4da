/* Communicates at random and keeps books of it: soak SEED MILLISECONDS FOLDER. With 0 milliseconds it goes on until it
 * is killed. All ranks draw the same numbers, so that each knows the next step without a message.
 *
 * The books of a rank, FOLDER/books.RANK, are mapped, so that they hold at whatever moment the rank is killed:
 * a call is in them right after it has returned, and while it is on its way they say which one it is and how many
 * bytes it may add. A communicator has a number, and has it in its label: c17.
 * Calls that crash the MPIs themselves are left out: two idups at once, create_group below a Cartesian communicator.
 */
#include "program.h"
#include <fcntl.h>
#include <mpisee.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define OPERATIONS(X)                                                                                             \
    X(Allgather) X(Allreduce) X(Alltoall) X(Barrier) X(Bcast) X(Cancel) X(Cart_create) X(Comm_create_group)       \
    X(Comm_dup) X(Comm_free) X(Comm_idup) X(Comm_split) X(Iallreduce) X(Ibarrier) X(Ibcast) X(Improbe) X(Imrecv) \
    X(Intercomm_create) X(Intercomm_merge) X(Irecv) X(Isend) X(Mprobe) X(Mrecv) X(Recv) X(Recv_init) X(Reduce)   \
    X(Request_free) X(Scan) X(Send_init) X(Sendrecv) X(Start) X(Startall) X(Testall) X(Testany) X(Testsome)      \
    X(Wait) X(Waitall) X(Waitany) X(Waitsome)
#define ENUM(name) name,
#define NAME(name) "MPI_" #name,
typedef enum { OPERATIONS(ENUM) OPERATION_COUNT } Operation;
static const char *const names[] = {OPERATIONS(NAME)};

enum { RANKS = 64, MOST_COMMS = 480, REGIONS = 3, ALIVE = 12, OPEN = 48, MOST_BYTES = 1 << 17, WORDS = 32 };
static const char *const regions[REGIONS] = {"", "outer", "outer/inner"};

typedef struct {
    char operation[WORDS], region[WORDS];
    uint64_t comm, calls, bytes;
} Entry;

typedef struct {
    uint64_t comm, peer, sent_messages, sent_bytes, received_messages, received_bytes;
} Traffic;

typedef struct {
    uint64_t pid, is_ready, doing, may_add_bytes, entry_count, traffic_count;
    char names[64][WORDS];
    Entry entries[1 << 15];
    Traffic traffic[1 << 13];
} Books;

static volatile Books *books;
static int entry_of[MOST_COMMS][OPERATION_COUNT][REGIONS], traffic_of[MOST_COMMS][RANKS];
static int region;

typedef struct {
    MPI_Comm comm; /* MPI_COMM_NULL on those that are no members */
    int id, is_cartesian;
    int count, ranks[RANKS];             /* in MPI_COMM_WORLD */
    int remote_count, remote[RANKS];     /* of an intercommunicator */
} Comm;

static Comm alive[ALIVE + RANKS];
static int alive_count, made;
static uint64_t state;
static char out[MOST_BYTES], in[4 * MOST_BYTES];

/* Open requests, each in a place that it keeps. */
static MPI_Request requests[OPEN];
static struct {
    int comm, start, peer; /* start: the entry of the call that started a receive, or -1 */
} told[OPEN];
static char received[OPEN][MOST_BYTES];
static int open_count;

static int draw(int below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)((state >> 11) % (uint64_t)below);
}

/* Of every class about as many. */
static int draw_bytes(int most_bits) {
    int bits = draw(most_bits + 1);
    return bits == 0 ? 0 : (1 << (bits - 1)) + draw(1 << (bits - 1));
}

static void open_books(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/books.%d", folder, rank);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    EXPECT(file >= 0 && ftruncate(file, sizeof *books) == 0);
    books = mmap(NULL, sizeof *books, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT(books != MAP_FAILED);
    close(file);
    books->pid = (uint64_t)getpid();
    for (int k = 0; k < OPERATION_COUNT; k++) strcpy((char *)books->names[k], names[k]);
    memset(entry_of, -1, sizeof entry_of);
    memset(traffic_of, -1, sizeof traffic_of);
}

static int entry(int comm, Operation operation) {
    int *place = &entry_of[comm][operation][region];
    if (*place < 0) {
        int k = (int)books->entry_count;
        EXPECT(k < (int)(sizeof books->entries / sizeof *books->entries));
        strcpy((char *)books->entries[k].operation, names[operation]);
        strcpy((char *)books->entries[k].region, regions[region]);
        books->entries[k].comm = (uint64_t)comm;
        books->entry_count++;
        *place = k;
    }
    return *place;
}

static int traffic(int comm, int peer) {
    int *place = &traffic_of[comm][peer];
    if (*place < 0) {
        int k = (int)books->traffic_count;
        EXPECT(k < (int)(sizeof books->traffic / sizeof *books->traffic));
        books->traffic[k].comm = (uint64_t)comm;
        books->traffic[k].peer = (uint64_t)peer;
        books->traffic_count++;
        *place = k;
    }
    return *place;
}

static void sent(int comm, int peer, int bytes) {
    int k = traffic(comm, peer);
    books->traffic[k].sent_messages++;
    books->traffic[k].sent_bytes += (uint64_t)bytes;
}

static void got(int comm, int peer, int bytes) {
    int k = traffic(comm, peer);
    books->traffic[k].received_messages++;
    books->traffic[k].received_bytes += (uint64_t)bytes;
}

static void begins(Operation operation, int64_t may_add_bytes) {
    books->may_add_bytes = (uint64_t)may_add_bytes;
    books->doing = (uint64_t)operation + 1;
}

static void count(const Comm *comm, Operation operation, int64_t bytes) {
    int k = entry(comm->id, operation);
    books->entries[k].calls++;
    books->entries[k].bytes += (uint64_t)bytes;
}

static void ended(void) { books->doing = 0; }

/* A call that counts once, with bytes that are known before. */
#define DO(operation, comm, bytes, call)                                                                          \
    do {                                                                                                          \
        begins(operation, bytes);                                                                                 \
        EXPECT((call) == MPI_SUCCESS);                                                                            \
        count(comm, operation, bytes);                                                                            \
        ended();                                                                                                  \
    } while (0)

/* A call that sends a message too, to a rank in the communicator. */
#define DO_SEND(operation, comm, to, bytes, call)                                                                 \
    do {                                                                                                          \
        begins(operation, bytes);                                                                                 \
        EXPECT((call) == MPI_SUCCESS);                                                                            \
        count(comm, operation, bytes);                                                                            \
        sent((comm)->id, to, bytes);                                                                              \
        ended();                                                                                                  \
    } while (0)

static int place_in(const int *ranks, int count) {
    for (int k = 0; k < count; k++)
        if (ranks[k] == rank) return k;
    return -1;
}

static int is_member(const Comm *comm) { return comm->comm != MPI_COMM_NULL; }

static Comm *add(MPI_Comm made_comm, const int *ranks, int count) {
    Comm *comm = &alive[alive_count++];
    memset(comm, 0, sizeof *comm);
    comm->comm = made_comm;
    comm->id = made++;
    comm->count = count;
    memcpy(comm->ranks, ranks, (size_t)count * sizeof *ranks);
    return comm;
}

static void name(Comm *comm) {
    if (!is_member(comm)) return;
    char label[WORDS];
    snprintf(label, sizeof label, "c%d", comm->id);
    EXPECT(MPI_Comm_set_name(comm->comm, label) == MPI_SUCCESS);
}

/* Outcome of a completion call: the completed requests count on their communicators, or if none was, those tested. */
static void settle(Operation operation, int completed, const int *indices, const MPI_Status *statuses) {
    char is_charged[MOST_COMMS] = {0};
    for (int k = 0; k < (completed > 0 ? completed : open_count); k++) {
        int at = completed > 0 ? indices[k] : k;
        if (completed == 0 && requests[at] == MPI_REQUEST_NULL) continue;
        if (!is_charged[told[at].comm]) {
            Comm only_id = {.id = told[at].comm};
            count(&only_id, operation, 0);
            is_charged[told[at].comm] = 1;
        }
        if (completed > 0 && told[at].start >= 0) {
            int bytes;
            MPI_Get_count(&statuses[k], MPI_BYTE, &bytes);
            books->entries[told[at].start].bytes += (uint64_t)bytes;
            got(told[at].comm, told[at].peer, bytes);
        }
    }
    ended();
}

static int open_now(void) {
    int left = 0;
    for (int k = 0; k < open_count; k++) left += requests[k] != MPI_REQUEST_NULL;
    return left;
}

/* Completes some open requests, or all. */
static void complete(int how) {
    static MPI_Status statuses[OPEN];
    static int indices[OPEN], before[OPEN];
    int flag, many, left = open_now();
    if (left == 0) {
        open_count = 0;
        return;
    }
    int active = 0;
    for (int k = 0; k < open_count; k++)
        if (requests[k] != MPI_REQUEST_NULL) before[active++] = k;
    int64_t most = (int64_t)left * MOST_BYTES;
    switch (how) {
    case 0: case 1: {
        Operation operation = how == 0 ? Waitall : Testall;
        begins(operation, most);
        flag = 1;
        EXPECT((how == 0 ? MPI_Waitall(open_count, requests, statuses)
                         : MPI_Testall(open_count, requests, &flag, statuses)) == MPI_SUCCESS);
        for (int k = 0; k < active && flag; k++) statuses[k] = statuses[before[k]];
        settle(operation, flag ? active : 0, before, statuses);
        break;
    }
    case 2: case 3: {
        Operation operation = how == 2 ? Waitany : Testany;
        begins(operation, most);
        flag = 1;
        EXPECT((how == 2 ? MPI_Waitany(open_count, requests, &indices[0], statuses)
                         : MPI_Testany(open_count, requests, &indices[0], &flag, statuses)) == MPI_SUCCESS);
        settle(operation, flag ? 1 : 0, indices, statuses);
        break;
    }
    case 4: case 5: {
        Operation operation = how == 4 ? Waitsome : Testsome;
        begins(operation, most);
        EXPECT((how == 4 ? MPI_Waitsome(open_count, requests, &many, indices, statuses)
                         : MPI_Testsome(open_count, requests, &many, indices, statuses)) == MPI_SUCCESS);
        settle(operation, many, indices, statuses);
        break;
    }
    default: {
        int at = before[0];
        begins(Wait, most);
        EXPECT(MPI_Wait(&requests[at], statuses) == MPI_SUCCESS);
        settle(Wait, 1, &at, statuses);
    }
    }
    if (open_now() == 0) open_count = 0;
    sched_yield();
}

static void complete_all(void) {
    while (open_now() > 0) complete(0);
    open_count = 0;
}

/* A slot for a request on the communicator; that of a receive has the entry that gets its bytes. */
static int place(const Comm *comm, int start, int peer) {
    if (open_count == OPEN) complete_all();
    told[open_count].comm = comm->id;
    told[open_count].start = start;
    told[open_count].peer = peer;
    return open_count++;
}

static void complete_until(int left) {
    while (open_now() > left) complete(6);
    if (left == 0) open_count = 0;
}

/* Open for later steps to complete. */
static void start_ring(Comm *comm, int me, int bytes, int tag) {
    if (open_count + 2 > OPEN) complete_all();
    int to = (me + 1) % comm->count, from = (me + comm->count - 1) % comm->count;
    int at = place(comm, entry(comm->id, Irecv), comm->ranks[from]);
    DO(Irecv, comm, 0, MPI_Irecv(received[at], MOST_BYTES, MPI_BYTE, from, tag, comm->comm, &requests[at]));
    at = place(comm, -1, 0);
    DO_SEND(Isend, comm, comm->ranks[to], bytes,
            MPI_Isend(out, bytes, MPI_BYTE, to, tag, comm->comm, &requests[at]));
}

static void persistent(Comm *comm, int me, int bytes, int tag, int how) {
    complete_all();
    int to = (me + 1) % comm->count, from = (me + comm->count - 1) % comm->count;
    MPI_Status statuses[2];
    DO(Recv_init, comm, 0, MPI_Recv_init(in, MOST_BYTES, MPI_BYTE, from, tag, comm->comm, &requests[0]));
    DO(Send_init, comm, 0, MPI_Send_init(out, bytes, MPI_BYTE, to, tag, comm->comm, &requests[1]));
    for (int time = 0; time < 2; time++) {
        Operation start = how ? Startall : Start;
        if (how) {
            DO_SEND(Startall, comm, comm->ranks[to], bytes, MPI_Startall(2, requests));
        } else {
            DO(Start, comm, 0, MPI_Start(&requests[0]));
            DO_SEND(Start, comm, comm->ranks[to], bytes, MPI_Start(&requests[1]));
        }
        begins(Waitall, MOST_BYTES);
        EXPECT(MPI_Waitall(2, requests, statuses) == MPI_SUCCESS);
        count(comm, Waitall, 0);
        int came;
        MPI_Get_count(&statuses[0], MPI_BYTE, &came);
        books->entries[entry(comm->id, start)].bytes += (uint64_t)came;
        got(comm->id, comm->ranks[from], came);
        ended();
    }
    DO(Request_free, comm, 0, MPI_Request_free(&requests[0]));
    DO(Request_free, comm, 0, MPI_Request_free(&requests[1]));
}

static void matched(Comm *comm, int me, int bytes, int tag, int how) {
    complete_all();
    int to = (me + 1) % comm->count, from = (me + comm->count - 1) % comm->count, came, flag = 0;
    MPI_Message message;
    MPI_Status status;
    int at = place(comm, -1, 0);
    DO_SEND(Isend, comm, comm->ranks[to], bytes,
            MPI_Isend(out, bytes, MPI_BYTE, to, tag, comm->comm, &requests[at]));
    while (how && !flag) {
        DO(Improbe, comm, 0, MPI_Improbe(from, tag, comm->comm, &flag, &message, &status));
        sched_yield();
    }
    if (!how) DO(Mprobe, comm, 0, MPI_Mprobe(from, tag, comm->comm, &message, &status));
    MPI_Get_count(&status, MPI_BYTE, &came);
    if (how) {
        at = place(comm, entry(comm->id, Imrecv), comm->ranks[from]);
        DO(Imrecv, comm, 0, MPI_Imrecv(received[at], came, MPI_BYTE, &message, &requests[at]));
    } else {
        begins(Mrecv, came);
        EXPECT(MPI_Mrecv(in, came, MPI_BYTE, &message, &status) == MPI_SUCCESS);
        count(comm, Mrecv, came);
        got(comm->id, comm->ranks[from], came);
        ended();
    }
    complete_until(0);
}

static void collective(Comm *comm, int me, int which, int bytes) {
    int few = bytes & 4095;
    int64_t unless_root = me == 0 ? 0 : bytes;
    MPI_Comm c = comm->comm;
    switch (which) {
    case 0: DO(Barrier, comm, 0, MPI_Barrier(c)); break;
    case 1: DO(Bcast, comm, unless_root, MPI_Bcast(out, bytes, MPI_BYTE, 0, c)); break;
    case 2: DO(Allreduce, comm, bytes, MPI_Allreduce(out, in, bytes, MPI_BYTE, MPI_BOR, c)); break;
    case 3: DO(Reduce, comm, bytes, MPI_Reduce(out, in, bytes, MPI_BYTE, MPI_BOR, 0, c)); break;
    case 4: DO(Allgather, comm, few, MPI_Allgather(out, few, MPI_BYTE, in, few, MPI_BYTE, c)); break;
    case 5:
        DO(Alltoall, comm, (int64_t)few * comm->count, MPI_Alltoall(out, few, MPI_BYTE, in, few, MPI_BYTE, c));
        break;
    default: DO(Scan, comm, unless_root, MPI_Scan(out, in, bytes, MPI_BYTE, MPI_BOR, c));
    }
}

/* Of one such operation at a time: it completes among the open requests. */
static void nonblocking_collective(Comm *comm, int me, int which, int bytes) {
    MPI_Comm c = comm->comm;
    int at = place(comm, -1, 0);
    MPI_Request *request = &requests[at];
    if (which == 0) DO(Ibarrier, comm, 0, MPI_Ibarrier(c, request));
    if (which == 1) DO(Ibcast, comm, me == 0 ? 0 : bytes, MPI_Ibcast(received[at], bytes, MPI_BYTE, 0, c, request));
    if (which == 2)
        DO(Iallreduce, comm, bytes, MPI_Iallreduce(out, received[at], bytes, MPI_BYTE, MPI_BOR, c, request));
}

static void cancelled(Comm *comm, int me) {
    MPI_Request request;
    MPI_Status status;
    int flag;
    int from = (me + 1) % comm->count;
    DO(Irecv, comm, 0, MPI_Irecv(in, 77, MPI_BYTE, from, 31999, comm->comm, &request));
    DO(Cancel, comm, 0, MPI_Cancel(&request));
    DO(Wait, comm, 0, MPI_Wait(&request, &status));
    MPI_Test_cancelled(&status, &flag);
    EXPECT(flag);
}

static void both_ways(Comm *comm, int to_place, int bytes, int tag, const int *peers, int from_place) {
    MPI_Status status;
    int came;
    begins(Sendrecv, bytes + (int64_t)MOST_BYTES);
    EXPECT(MPI_Sendrecv(out, bytes, MPI_BYTE, to_place, tag, in, MOST_BYTES, MPI_BYTE, from_place, tag, comm->comm,
                        &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_BYTE, &came);
    count(comm, Sendrecv, (int64_t)bytes + came);
    sent(comm->id, peers[to_place], bytes);
    got(comm->id, peers[from_place], came);
    ended();
}

/* A send whose request is freed while it may be active; the receive waits for it. */
static void freed(Comm *comm, int me, int tag) {
    MPI_Request request;
    MPI_Status status;
    int to = (me + 1) % comm->count, from = (me + comm->count - 1) % comm->count;
    DO_SEND(Isend, comm, comm->ranks[to], 29, MPI_Isend(out, 29, MPI_BYTE, to, tag, comm->comm, &request));
    DO(Request_free, comm, 0, MPI_Request_free(&request));
    begins(Recv, 29);
    EXPECT(MPI_Recv(in, 29, MPI_BYTE, from, tag, comm->comm, &status) == MPI_SUCCESS);
    count(comm, Recv, 29);
    got(comm->id, comm->ranks[from], 29);
    ended();
}

static void communicate(Comm *comm, int step) {
    int what = draw(12), which = draw(7), bytes = draw_bytes(draw(8) == 0 ? 17 : 12), tag = step % 30000;
    int me = place_in(comm->ranks, comm->count);
    if (!is_member(comm)) return;
    if (comm->remote_count > 0) {
        int here = me >= 0, mine = here ? me : place_in(comm->remote, comm->remote_count);
        const int *peers = here ? comm->remote : comm->ranks;
        DO(Barrier, comm, 0, MPI_Barrier(comm->comm));
        if (mine < comm->count && mine < comm->remote_count) both_ways(comm, mine, bytes, tag, peers, mine);
        return;
    }
    switch (what) {
    case 0: case 1: case 2: collective(comm, me, which, bytes); break;
    case 3: nonblocking_collective(comm, me, which % 3, bytes); break;
    case 4: persistent(comm, me, bytes, tag, which & 1); break;
    case 5: matched(comm, me, bytes, tag, which & 1); break;
    case 6: cancelled(comm, me); break;
    case 7:
        both_ways(comm, (me + 1) % comm->count, bytes, tag, comm->ranks, (me + comm->count - 1) % comm->count);
        break;
    case 8: freed(comm, me, tag); break;
    default: start_ring(comm, me, bytes, tag);
    }
}

static void split(Comm parent) {
    int ranks[4][RANKS], counts[4] = {0}, colours = 2 + draw(3), mine = MPI_UNDEFINED, me = -1;
    for (int k = 0; k < parent.count; k++) {
        int colour = draw(colours + 1) - 1; /* -1: in none */
        if (parent.ranks[k] == rank) mine = colour < 0 ? MPI_UNDEFINED : colour, me = k;
        if (colour >= 0) ranks[colour][counts[colour]++] = parent.ranks[k];
    }
    MPI_Comm comm = MPI_COMM_NULL;
    if (is_member(&parent)) DO(Comm_split, &parent, 0, MPI_Comm_split(parent.comm, mine, me, &comm));
    for (int colour = 0; colour < colours; colour++)
        if (counts[colour] > 0)
            name(add(colour == mine ? comm : MPI_COMM_NULL, ranks[colour], counts[colour]));
}

static void create_group(Comm parent, int tag) {
    int ranks[RANKS], places[RANKS], some_count = 0;
    for (int k = 0; k < parent.count; k++) {
        if (draw(2) == 0) continue;
        places[some_count] = k;
        ranks[some_count++] = parent.ranks[k];
    }
    if (some_count == 0) return;
    MPI_Comm comm = MPI_COMM_NULL;
    if (place_in(ranks, some_count) >= 0) {
        MPI_Group all, some;
        MPI_Comm_group(parent.comm, &all);
        MPI_Group_incl(all, some_count, places, &some);
        DO(Comm_create_group, &parent, 0, MPI_Comm_create_group(parent.comm, some, tag, &comm));
        MPI_Group_free(&some);
        MPI_Group_free(&all);
    }
    name(add(comm, ranks, some_count));
}

/* Two halves, what is between them, and both as one: four communicators. */
static void between(Comm parent, int tag) {
    int ranks[2][RANKS], counts[2] = {0}, me = place_in(parent.ranks, parent.count);
    for (int k = 0; k < parent.count; k++) ranks[k % 2][counts[k % 2]++] = parent.ranks[k];
    int mine = me < 0 ? 0 : me % 2;
    MPI_Comm comm = MPI_COMM_NULL, merged = MPI_COMM_NULL;
    if (me >= 0) DO(Comm_split, &parent, 0, MPI_Comm_split(parent.comm, mine, me, &comm));
    Comm halves[2];
    for (int half = 0; half < 2; half++) {
        Comm *added = add(me >= 0 && half == mine ? comm : MPI_COMM_NULL, ranks[half], counts[half]);
        name(added);
        halves[half] = *added;
    }
    comm = MPI_COMM_NULL;
    if (me >= 0)
        DO(Intercomm_create, &halves[mine], 0,
           MPI_Intercomm_create(halves[mine].comm, 0, parent.comm, 1 - mine, tag, &comm));
    Comm *inter = add(comm, ranks[0], counts[0]);
    inter->remote_count = counts[1];
    memcpy(inter->remote, ranks[1], sizeof ranks[1]);
    name(inter);
    if (me >= 0) DO(Intercomm_merge, inter, 0, MPI_Intercomm_merge(inter->comm, mine, &merged));
    int all[RANKS];
    memcpy(all, ranks[0], sizeof(int) * (size_t)counts[0]);
    memcpy(all + counts[0], ranks[1], sizeof(int) * (size_t)counts[1]);
    name(add(merged, all, parent.count));
}

static void create(Comm parent, int step) {
    int how = draw(6), tag = step % 30000, period = 1;
    int as_all[1] = {parent.count};
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request;
    if (parent.remote_count > 0 || made + 5 > MOST_COMMS) return;
    complete_all();
    if (parent.is_cartesian && how > 1) how = 0;
    switch (how) {
    case 0:
        if (is_member(&parent)) DO(Comm_dup, &parent, 0, MPI_Comm_dup(parent.comm, &comm));
        break;
    case 1:
        if (is_member(&parent)) {
            DO(Comm_idup, &parent, 0, MPI_Comm_idup(parent.comm, &comm, &request));
            DO(Wait, &parent, 0, MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        break;
    case 2: split(parent); return;
    case 3: create_group(parent, tag); return;
    case 4:
        if (is_member(&parent)) DO(Cart_create, &parent, 0, MPI_Cart_create(parent.comm, 1, as_all, &period, 0, &comm));
        break;
    default:
        if (parent.count > 1) between(parent, tag);
        return;
    }
    Comm *added = add(comm, parent.ranks, parent.count);
    added->is_cartesian = how == 4 || parent.is_cartesian;
    name(added);
}

static void drop(int at) {
    Comm comm = alive[at];
    alive[at] = alive[--alive_count];
    complete_all();
    if (is_member(&comm)) DO(Comm_free, &comm, 0, MPI_Comm_free(&comm.comm));
}

static int goes_on(Comm *world, const struct timespec *begin, long milliseconds) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long passed = (now.tv_sec - begin->tv_sec) * 1000 + (now.tv_nsec - begin->tv_nsec) / 1000000;
    int go = milliseconds == 0 || passed < milliseconds;
    DO(Bcast, world, rank == 0 ? 0 : 4, MPI_Bcast(&go, 1, MPI_INT, 0, world->comm));
    return go;
}

int main(int argc, char **argv) {
    EXPECT(argc == 4);
    long milliseconds = atol(argv[2]);
    begin(&argc, &argv);
    EXPECT(size <= RANKS);
    open_books(argv[3]);
    state = 0x9e3779b97f4a7c15u * (strtoull(argv[1], NULL, 10) + 1);
    int all[RANKS];
    for (int k = 0; k < size; k++) all[k] = k;
    name(add(MPI_COMM_WORLD, all, size));
    /* Each process has its own MPI_COMM_SELF, under one number. */
    name(add(MPI_COMM_SELF, &rank, 1));
    Comm *world = &alive[0];
    DO(Barrier, world, 0, MPI_Barrier(MPI_COMM_WORLD));
    books->is_ready = 1;
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int step = 1; step % 50 != 0 || goes_on(world, &begin, milliseconds); step++) {
        int what = draw(20);
        if (what == 0 && alive_count < ALIVE) {
            int at = draw(alive_count);
            create(alive[at == 1 ? 0 : at], step);
        } else if (what == 1 && alive_count > 2) {
            drop(2 + draw(alive_count - 2));
        } else if (what == 2 && region < REGIONS - 1) {
            mpisee_region_begin(region == 0 ? "outer" : "inner");
            region++;
        } else if (what == 3 && region > 0) {
            mpisee_region_end();
            region--;
        } else if (what < 8) {
            complete(draw(7));
        } else {
            communicate(&alive[draw(alive_count)], step);
        }
    }
    complete_all();
    for (; region > 0; region--) mpisee_region_end();
    MPI_Finalize();
    return 0;
}
