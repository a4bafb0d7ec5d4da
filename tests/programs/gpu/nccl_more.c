/* nccl_more: what few programs do with NCCL: parts of a communicator that does not block, groups that fail or only ask how long they would
 * take, calls that are repeated, names, windows and signals, ranks that come later. 2 ranks. */
#include "nccl_with_mpi.h"

static char words[4096];

static void reduce(int count, ncclComm_t comm) { NCCL(ncclAllReduce(words, words, count, ncclInt8, 0, comm, NULL)); }

/* The handle of the part is there later; the place in which NCCL stores it is another's afterwards. */
static ncclComm_t part_of(ncclComm_t comm, int color) {
    ncclComm_t part;
    ncclResult_t state;
    pretend_part(rank, 2);
    pretend_late(2);
    EXPECT(ncclCommSplit(comm, color, rank, &part, NULL) == ncclInProgress && !part);
    pretend_late(0);
    NCCL(ncclCommGetAsyncError(comm, &state));
    EXPECT(part);
    return part;
}

static void split_without_blocking(ncclComm_t comm) {
    ncclComm_t one = part_of(comm, 3), other = part_of(comm, 4);
    reduce(11, one);
    reduce(7, other);
    reduce(11, one);
    NCCL(ncclCommDestroy(one));
    NCCL(ncclCommDestroy(other));
}

/* One rank has to try twice; both have the same name for the part. */
static void split_again(ncclComm_t comm) {
    ncclComm_t part;
    EXPECT(rank || ncclCommSplit(comm, -7, rank, &part, NULL) == ncclInvalidArgument);
    NCCL(ncclCommSplit(comm, 5, rank, &part, NULL));
    reduce(13, part);
    NCCL(ncclCommDestroy(part));
}

static void groups(ncclComm_t comm) {
    NCCL(ncclGroupStart());
    reduce(1009, comm);
    NCCL(ncclGroupSimulateEnd(NULL));
    NCCL(ncclGroupStart());
    reduce(17, comm);
    NCCL(ncclGroupEnd());
    pretend_group_fails(1);
    NCCL(ncclGroupStart());
    reduce(1013, comm);
    NCCL(ncclSend(words, 1019, ncclInt8, 1 - rank, comm, NULL));
    EXPECT(ncclGroupEnd() == ncclInvalidArgument);
    pretend_group_fails(0);
}

static void signals(ncclComm_t comm) {
    ncclWindow_t window;
    NCCL(ncclCommWindowRegister(comm, words, sizeof words, &window, 0));
    NCCL(ncclPutSignal(words, 19, ncclInt32, 1 - rank, window, 64, 0, 0, 0, comm, NULL));
    NCCL(ncclSignal(1 - rank, 0, 0, 0, comm, NULL));
    NCCL(ncclWaitSignal(2, words, comm, NULL));
    NCCL(ncclCommWindowDeregister(comm, window));
    size_t sent[] = {23, 29}, at[] = {0, 100};
    NCCL(ncclAllToAllv(words, sent, at, words, sent, at, ncclInt64, comm, NULL));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    ncclComm_t comm, pair;
    char name[16] = "gradients";
    ncclConfig_t config = {.size = sizeof config, .magic = 0xcafebeef, .commName = name};
    NCCL(ncclCommInitRankConfig(&comm, size, shared_id(), rank, &config));
    memset(name, 'x', sizeof name);
    split_without_blocking(comm);
    split_again(comm);
    groups(comm);
    signals(comm);

    /* Rank 1 joins rank 0, which was alone. */
    ncclUniqueId id = shared_id(), more = shared_id();
    ncclComm_t alone = NULL;
    if (rank == 0) {
        NCCL(ncclCommInitRank(&alone, 1, id, 0));
    }
    NCCL(ncclCommGrow(alone, 2, &more, rank ? 1 : -1, &pair, NULL));
    reduce(31, pair);
    NCCL(ncclCommRevoke(pair, 0));
    NCCL(ncclCommDestroy(pair));
    EXPECT(rank || ncclCommDestroy(alone) == ncclSuccess);
    NCCL(ncclCommDestroy(comm));
    MPI_Finalize();
    return 0;
}
