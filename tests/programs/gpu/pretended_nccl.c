/* NCCL without a GPU: it makes communicators, checks arguments, and moves nothing; in the streams of the pretended driver, where that is
 * loaded, an operation takes a microsecond for each element, at the end of the outermost group. In a group a communicator is there when the
 * group ends, as NCCL has it. ncclBcast and ncclAlltoAll call other functions of the library by their public names. */
#define _GNU_SOURCE
#include "pretended_nccl.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ncclComm { int rank, size, asked, late, device; };
enum { MOST = 16 };
static _Thread_local int depth, waiting;
static _Thread_local struct { ncclComm_t *to, comm; } pending[MOST];
static _Thread_local struct { cudaStream_t stream; int device; size_t count; } works[MOST];
static _Thread_local int worked;
static struct { ncclComm_t *to, comm; } unstored;
static int part_rank, part_size, is_late, calls, device_of_next, group_fails;

void pretend_part(int rank, int size) { part_rank = rank, part_size = size; }
void pretend_late(int late) { is_late = late; }
void pretend_group_fails(int fails) { group_fails = fails; }
void pretend_device(int device) { device_of_next = device; }
int pretended_calls(void) { return calls; }

/* NCCL's own thread stores the handle of a part that was late. */
void pretend_store(void) {
    if (unstored.to) {
        *unstored.to = unstored.comm, unstored.to = NULL;
    }
}

/* The memory of an aborted communicator, which the next one gets. */
static ncclComm_t spare;

static ncclResult_t make(ncclComm_t *to, int rank, int size, int late) {
    if (rank < 0 || rank >= size) {
        return ncclInvalidArgument;
    }
    ncclComm_t comm = spare ? spare : malloc(sizeof *comm);
    spare = NULL;
    *comm = (struct ncclComm){rank, size, 0, late == 1, device_of_next};
    if (late == 2) {
        *to = NULL;
        unstored.to = to, unstored.comm = comm;
    } else if (depth && waiting < MOST) {
        pending[waiting].to = to, pending[waiting++].comm = comm;
    } else {
        *to = comm;
    }
    return late ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    static int made;
    memset(id, 0, sizeof *id);
    int words[] = {++made, getpid()};
    memcpy(id->internal, words, sizeof words);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank) {
    return id.internal[0] ? make(comm, rank, nranks, 0) : ncclInvalidArgument;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
    return config && config->magic != 0xcafebeef ? ncclInvalidArgument : ncclCommInitRank(comm, nranks, id, rank);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int count, ncclUniqueId *ids,
                                      ncclConfig_t *config) {
    return count > 0 ? ncclCommInitRankConfig(comm, nranks, ids[count - 1], rank, config) : ncclInvalidArgument;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int devices, const int *list) {
    for (int i = 0; i < devices; i++) {
        if (list && list[i] < 0) {
            return ncclInvalidArgument;
        }
        make(&comms[i], i, devices, 0);
    }
    return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *part, ncclConfig_t *config) {
    (void)key, (void)config;
    if (!comm || color < NCCL_SPLIT_NOCOLOR) {
        return ncclInvalidArgument;
    }
    *part = NULL;
    return color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : make(part, part_rank, part_size, is_late);
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int count, ncclComm_t *rest, ncclConfig_t *config, int flags) {
    (void)config, (void)flags;
    int below = 0;
    for (int i = 0; i < count; i++) {
        below += excluded[i] < comm->rank;
    }
    return make(rest, comm->rank - below, comm->size - count, 0);
}

/* A communicator that does not block has made the part when this is asked. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *code) {
    if (comm) {
        pretend_store();
    }
    *code = ncclSuccess;
    return ncclSuccess;
}

ncclResult_t ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId *id, int rank, ncclComm_t *more, ncclConfig_t *config) {
    (void)config;
    return !comm && !id ? ncclInvalidArgument : make(more, comm ? comm->rank : rank, ranks, 0);
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) { return comm && !flags ? ncclSuccess : ncclInvalidArgument; }

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *memory, size_t bytes, ncclWindow_t *window, int flags) {
    (void)bytes, (void)flags;
    *window = memory;
    return comm ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) { return comm && window ? ncclSuccess : ncclInvalidArgument; }

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return comm ? ncclSuccess : ncclInvalidArgument; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    free(comm);
    return ncclSuccess;
}

/* An aborted communicator does not store its parts any more. */
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    unstored.to = NULL;
    free(spare);
    spare = comm;
    return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int *count) {
    if (comm->late && !comm->asked++) {
        return ncclInvalidArgument;
    }
    *count = comm->size;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank) {
    *rank = comm->rank;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device) {
    *device = comm->device;
    return ncclSuccess;
}

static void work(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void (*pretend_work)(cudaStream_t, int, double) =
        driver ? (void (*)(cudaStream_t, int, double))dlsym(driver, "pretend_work") : NULL;
    for (int i = 0; pretend_work && i < worked; i++) {
        pretend_work(works[i].stream, works[i].device, works[i].count * 1e-3);
    }
    worked = 0;
}

static ncclResult_t run(ncclComm_t comm, ncclDataType_t type, int root, size_t count, cudaStream_t stream) {
    if (!comm || type < ncclInt8 || type > 11 || root < 0 || root >= comm->size) {
        return ncclInvalidArgument;
    }
    calls++;
    if (worked < MOST) {
        works[worked].stream = stream, works[worked].device = comm->device, works[worked++].count = count;
    }
    if (!depth) {
        work();
    }
    return ncclSuccess;
}

#define ARGUMENTS const void *from, void *to, size_t count, ncclDataType_t type
#define REST ncclComm_t comm, cudaStream_t stream
#define RUN(root) { (void)from, (void)to; return run(comm, type, root, count, stream); }
ncclResult_t ncclAllReduce(ARGUMENTS, ncclRedOp_t op, REST) { (void)op; RUN(0) }
ncclResult_t ncclReduceScatter(ARGUMENTS, ncclRedOp_t op, REST) { (void)op; RUN(0) }
ncclResult_t ncclReduce(ARGUMENTS, ncclRedOp_t op, int root, REST) { (void)op; RUN(root) }
ncclResult_t ncclBroadcast(ARGUMENTS, int root, REST) RUN(root)
ncclResult_t ncclAllGather(ARGUMENTS, REST) RUN(0)
ncclResult_t ncclGather(ARGUMENTS, int root, REST) RUN(root)
ncclResult_t ncclScatter(ARGUMENTS, int root, REST) RUN(root)

ncclResult_t ncclBcast(void *at, size_t count, ncclDataType_t type, int root, REST) {
    return ncclBroadcast(at, at, count, type, root, comm, stream);
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, REST) {
    void *to = NULL;
    RUN(peer)
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, REST) {
    const void *from = NULL;
    RUN(peer)
}

ncclResult_t ncclAlltoAll(ARGUMENTS, REST) {
    ncclGroupStart();
    for (int peer = 0; peer < comm->size; peer++) {
        ncclSend(from, count, type, peer, comm, stream);
        ncclRecv(to, count, type, peer, comm, stream);
    }
    return ncclGroupEnd();
}

ncclResult_t ncclGroupStart(void) {
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
    if (--depth == 0) {
        for (int i = 0; i < waiting; i++) {
            *pending[i].to = pending[i].comm;
        }
        waiting = 0;
        work();
        return group_fails ? ncclInvalidArgument : ncclSuccess;
    }
    return ncclSuccess;
}

ncclResult_t ncclGroupSimulateEnd(void *info) {
    (void)info;
    depth--, waiting = worked = 0;
    return ncclSuccess;
}

ncclResult_t ncclPutSignal(const void *from, size_t count, ncclDataType_t type, int peer, ncclWindow_t window, size_t offset, int signal,
                           int context, unsigned flags, REST) {
    void *to = window;
    (void)offset, (void)signal, (void)context, (void)flags;
    RUN(peer)
}

ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, REST) {
    (void)signal, (void)context, (void)flags;
    return run(comm, ncclInt8, peer, 0, stream);
}

ncclResult_t ncclWaitSignal(int count, void *signals, REST) {
    (void)signals;
    return run(comm, ncclInt8, 0, count, stream);
}

/* RCCL's. */
ncclResult_t ncclAllToAllv(const void *from, const size_t *sent, const size_t *sent_at, void *to, const size_t *received,
                           const size_t *received_at, ncclDataType_t type, REST) {
    (void)sent_at, (void)received, (void)received_at;
    size_t count = sent[0];
    RUN(0)
}
