/* NCCL that moves data between processes, in memory of the pretended driver (pretended_gpu.c) and behind what its streams do. Work on a
 * communicator goes one after the other, as NCCL has it. PRETEND_NCCL in the environment:
 *
 *   wrong   messages of more than 100 bytes arrive with another last one
 *   stuck   nothing arrives, and communicators say that they have failed
 */
#define _GNU_SOURCE
#include "pretended_gpu.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SUCCESS = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6 };
enum { CHUNK = 1 << 16, MOST = 4096, MOST_RANKS = 16 };
enum { UINT8 = 1, FLOAT = 7, DOUBLE = 8 };

/* From one rank to another: a piece of a message at a time. */
struct box {
    _Atomic uint64_t written, read;
    uint64_t message_bytes, bytes;
    char data[CHUNK];
};
struct shared {
    _Atomic int arrived;
    _Atomic int devices[MOST_RANKS];
    struct box boxes[];
};
struct comm {
    int rank, size;
    struct shared *shared;
    _Atomic uint64_t next, served;
};
typedef struct { char bytes[128]; } id_t_;

static pretended_bytes_function *bytes_of;
static pretended_enqueue_function *enqueue;
static pretended_device_function *device_of;

static int is(const char *word) {
    const char *text = getenv("PRETEND_NCCL");
    return text && !strcmp(text, word);
}

int ncclGetUniqueId(id_t_ *id) {
    memset(id, 0, sizeof *id);
    int words[] = {getpid(), memfd_create("pretended_nccl", MFD_CLOEXEC)};
    memcpy(id, words, sizeof words);
    return words[1] < 0 ? SYSTEM_ERROR : SUCCESS;
}

int ncclCommInitRank(struct comm **made, int size, id_t_ id, int rank) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!driver || rank < 0 || rank >= size || size > MOST_RANKS) {
        return INVALID_ARGUMENT;
    }
    bytes_of = (pretended_bytes_function *)dlsym(driver, "pretended_bytes");
    enqueue = (pretended_enqueue_function *)dlsym(driver, "pretended_enqueue");
    device_of = (pretended_device_function *)dlsym(driver, "pretended_device");
    int words[2];
    memcpy(words, &id, sizeof words);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", words[0], words[1]);
    int file = open(path, O_RDWR | O_CLOEXEC);
    size_t bytes = sizeof(struct shared) + (size_t)size * size * sizeof(struct box);
    if (file < 0 || ftruncate(file, bytes)) {
        return SYSTEM_ERROR;
    }
    struct shared *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (shared == MAP_FAILED) {
        return SYSTEM_ERROR;
    }
    shared->devices[rank] = device_of();
    shared->arrived++;
    while (shared->arrived < size) {
        sched_yield();
    }
    for (int one = 0; one < size; one++) {
        for (int other = 0; other < one; other++) {
            if (shared->devices[one] == shared->devices[other]) {
                return INVALID_USAGE;
            }
        }
    }
    *made = calloc(1, sizeof **made);
    **made = (struct comm){.rank = rank, .size = size, .shared = shared};
    return SUCCESS;
}

int ncclCommDestroy(struct comm *comm) {
    if (!comm || comm->next != comm->served) {
        return INVALID_ARGUMENT;
    }
    munmap(comm->shared, sizeof(struct shared) + (size_t)comm->size * comm->size * sizeof(struct box));
    free(comm);
    return SUCCESS;
}

int ncclCommGetAsyncError(struct comm *comm, int *code) {
    (void)comm;
    *code = is("stuck") ? REMOTE_ERROR : SUCCESS;
    return SUCCESS;
}

const char *ncclGetErrorString(int code) {
    return code == INVALID_USAGE ? "invalid usage" : code == REMOTE_ERROR ? "remote process error" : "pretended";
}

/* ---- Messages ---- */

struct message {
    int is_send, peer, is_done;
    char *place;
    uint64_t bytes, moved;
};

static struct box *box(struct comm *comm, int from, int to) { return &comm->shared->boxes[from * comm->size + to]; }

/* Moves a piece, if the other rank is ready for it. */
static void move(struct comm *comm, struct message *it) {
    struct box *box_ = it->is_send ? box(comm, comm->rank, it->peer) : box(comm, it->peer, comm->rank);
    if (it->is_send && box_->written == box_->read) {
        uint64_t left = it->bytes - it->moved, bytes = left < CHUNK ? left : CHUNK;
        memcpy(box_->data, it->place + it->moved, bytes);
        if (is("wrong") && it->bytes > 100 && bytes == left) {
            box_->data[bytes - 1] ^= 1;
        }
        box_->message_bytes = it->bytes, box_->bytes = bytes;
        box_->written++;
        it->moved += bytes;
        it->is_done = it->moved == it->bytes;
    } else if (!it->is_send && box_->written != box_->read) {
        if (box_->message_bytes != it->bytes) {
            fprintf(stderr, "rank %d expects %lu bytes of %d, and gets %lu\n", comm->rank, it->bytes, it->peer, box_->message_bytes);
            abort();
        }
        memcpy(it->place + it->moved, box_->data, box_->bytes);
        it->moved += box_->bytes;
        it->is_done = it->moved == it->bytes;
        box_->read++;
    }
}

/* Messages to a rank, and from it, go one after the other; all others at the same time. */
static void exchange(struct comm *comm, struct message *messages, int count) {
    for (int open = count; open;) {
        char is_taken[2][MOST_RANKS] = {{0}};
        open = 0;
        for (int at = 0; at < count; at++) {
            struct message *it = &messages[at];
            if (!it->is_done && !is_taken[it->is_send][it->peer]) {
                move(comm, it);
                is_taken[it->is_send][it->peer] = !it->is_done;
            }
            open += !it->is_done;
        }
        sched_yield();
    }
}

/* ---- Work in streams ---- */

struct work {
    struct comm *comm;
    uint64_t ticket;
    int count, type, is_sum;
    /* Of a sum: a block of each rank, and where the sum goes if it is wanted here. */
    char *blocks, *to;
    size_t bytes;
    struct message messages[];
};

static void add(const struct work *work) {
    for (int rank = 0; rank < work->comm->size; rank++) {
        const char *block = work->blocks + rank * work->bytes;
        for (size_t at = 0; at < work->bytes; at += work->type == DOUBLE ? 8 : work->type == FLOAT ? 4 : 1) {
            switch (work->type) {
            case DOUBLE: *(double *)(work->to + at) = (rank ? *(double *)(work->to + at) : 0) + *(const double *)(block + at); break;
            case FLOAT: *(float *)(work->to + at) = (rank ? *(float *)(work->to + at) : 0) + *(const float *)(block + at); break;
            default: work->to[at] = (rank ? work->to[at] : 0) + block[at];
            }
        }
    }
}

static void act(void *place) {
    struct work *work = place;
    struct comm *comm = work->comm;
    while (comm->served != work->ticket || is("stuck")) {
        usleep(20);
    }
    exchange(comm, work->messages, work->count);
    if (work->is_sum && work->to) {
        add(work);
    }
    free(work->blocks);
    comm->served++;
}

static int begin(struct comm *comm, const struct message *messages, int count, void *stream, const struct work *head) {
    struct work *work = malloc(sizeof *work + count * sizeof *messages);
    *work = *head;
    work->comm = comm, work->count = count, work->ticket = comm->next++;
    memcpy(work->messages, messages, count * sizeof *messages);
    return enqueue(stream, act, work);
}

static _Thread_local int depth, count;
static _Thread_local struct message group[MOST];
static _Thread_local struct comm *group_comm;
static _Thread_local void *group_stream;

int ncclGroupStart(void) {
    depth++;
    return SUCCESS;
}

int ncclGroupEnd(void) {
    if (!depth || --depth || !count) {
        return SUCCESS;
    }
    int messages = count;
    count = 0;
    return begin(group_comm, group, messages, group_stream, &(struct work){0});
}

static int message(int is_send, const void *address, size_t bytes, int type, int peer, struct comm *comm, void *stream) {
    char *place = bytes_of(address, bytes);
    if (!comm || !place || type != UINT8 || peer < 0 || peer >= comm->size || count == MOST ||
        (count && (comm != group_comm || stream != group_stream))) {
        return INVALID_ARGUMENT;
    }
    ncclGroupStart();
    group_comm = comm, group_stream = stream;
    group[count++] = (struct message){is_send, peer, 0, place, bytes, 0};
    return ncclGroupEnd();
}

int ncclSend(const void *from, size_t bytes, int type, int peer, struct comm *comm, void *stream) {
    return message(1, from, bytes, type, peer, comm, stream);
}

int ncclRecv(void *to, size_t bytes, int type, int peer, struct comm *comm, void *stream) {
    return message(0, to, bytes, type, peer, comm, stream);
}

/* ---- Collective operations ---- */

static size_t size_of(int type) { return type == DOUBLE ? 8 : type == FLOAT ? 4 : 1; }

int ncclBroadcast(const void *from, void *to, size_t elements, int type, int root, struct comm *comm, void *stream) {
    size_t bytes = elements * size_of(type);
    struct message all[MOST_RANKS + 1];
    int messages = 0;
    for (int peer = 0; comm->rank == root && peer < comm->size; peer++) {
        all[messages++] = (struct message){1, peer, 0, bytes_of(from, bytes), bytes, 0};
    }
    all[messages++] = (struct message){0, root, 0, bytes_of(to, bytes), bytes, 0};
    return all[0].place ? begin(comm, all, messages, stream, &(struct work){0}) : INVALID_ARGUMENT;
}

/* From each rank a block to each: all of them get the same one, or each its own; they go next to each other, or are added up. */
static int to_all(const void *from, void *to, size_t bytes, int is_same, struct work *head, struct comm *comm, void *stream) {
    char *own = bytes_of(from, is_same ? bytes : bytes * comm->size);
    char *place = head->is_sum ? head->blocks = malloc(bytes * comm->size + 1) : bytes_of(to, bytes * comm->size);
    head->bytes = bytes;
    if (!own || !place) {
        return INVALID_ARGUMENT;
    }
    struct message all[2 * MOST_RANKS];
    for (int peer = 0; peer < comm->size; peer++) {
        all[2 * peer] = (struct message){1, peer, 0, own + (is_same ? 0 : peer * bytes), bytes, 0};
        all[2 * peer + 1] = (struct message){0, peer, 0, place + peer * bytes, bytes, 0};
    }
    return begin(comm, all, 2 * comm->size, stream, head);
}

int ncclAllGather(const void *from, void *to, size_t elements, int type, struct comm *comm, void *stream) {
    return to_all(from, to, elements * size_of(type), 1, &(struct work){0}, comm, stream);
}

static int sum(const void *from, void *to, size_t elements, int type, int op, int is_same, int is_wanted, struct comm *comm, void *stream) {
    size_t bytes = elements * size_of(type);
    char *place = is_wanted ? bytes_of(to, bytes) : NULL;
    struct work head = {.is_sum = 1, .type = type, .to = place};
    return op || (is_wanted && !place) ? INVALID_ARGUMENT : to_all(from, NULL, bytes, is_same, &head, comm, stream);
}

int ncclAllReduce(const void *from, void *to, size_t elements, int type, int op, struct comm *comm, void *stream) {
    return sum(from, to, elements, type, op, 1, 1, comm, stream);
}

int ncclReduce(const void *from, void *to, size_t elements, int type, int op, int root, struct comm *comm, void *stream) {
    return sum(from, to, elements, type, op, 1, comm->rank == root, comm, stream);
}

int ncclReduceScatter(const void *from, void *to, size_t elements, int type, int op, struct comm *comm, void *stream) {
    return sum(from, to, elements, type, op, 0, 1, comm, stream);
}
