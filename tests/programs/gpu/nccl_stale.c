/* nccl_stale: parts of communicators that do not block, whose variables are used for other data, or never get a handle; and the name of a
 * part whose size is not known at once. 2 ranks. */
#include "nccl_with_mpi.h"

static char words[4096];
static ncclComm_t const other = (ncclComm_t)0x1234567;

static void reduce(int count, ncclComm_t comm) { NCCL(ncclAllReduce(words, words, count, ncclInt8, 0, comm, NULL)); }

static void split(ncclComm_t comm, int late, int color, ncclComm_t *part, ncclConfig_t *config) {
    pretend_part(rank, size);
    pretend_late(late);
    EXPECT(ncclCommSplit(comm, color, rank, part, config) == ncclInProgress && !*part == (late == 2));
    pretend_late(0);
}

/* The handle is kept elsewhere, and its variable is something else by the time that the parent is asked for its state. */
static void move_handle(ncclComm_t comm) {
    ncclComm_t place;
    ncclResult_t state;
    split(comm, 2, 3, &place, NULL);
    pretend_store();
    ncclComm_t part = place;
    reduce(61, part);
    place = other;
    NCCL(ncclCommGetAsyncError(comm, &state));
    reduce(67, part);
    NCCL(ncclCommDestroy(part));
}

/* The parent is aborted before it has made the part; the next communicator gets its handle. */
static void give_up(void) {
    ncclComm_t comm, place;
    ncclResult_t state;
    NCCL(ncclCommInitRank(&comm, size, shared_id(), rank));
    ncclComm_t before = comm;
    split(comm, 2, 4, &place, NULL);
    NCCL(ncclCommAbort(comm));
    place = other;
    NCCL(ncclCommInitRank(&comm, size, shared_id(), rank));
    EXPECT(comm == before && place == other);
    NCCL(ncclCommGetAsyncError(comm, &state));
    reduce(71, comm);
    NCCL(ncclCommDestroy(comm));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(size == 2);
    ncclComm_t comm, part;
    ncclConfig_t config = {.size = sizeof config, .magic = 0xcafebeef, .commName = "pipeline"};
    NCCL(ncclCommInitRank(&comm, size, shared_id(), rank));
    move_handle(comm);
    split(comm, 1, 5, &part, &config);
    reduce(73, part);
    NCCL(ncclCommDestroy(part));
    NCCL(ncclCommDestroy(comm));
    give_up();
    MPI_Finalize();
    return 0;
}
