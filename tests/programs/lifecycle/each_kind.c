/* Calls of each kind on 2 ranks: between two ranks, collective, on requests, that create communicators, on windows, on
 * files, in regions, of threads at once, and with FORTRAN also from there. */
#include "program.h"
#include <pthread.h>

enum { BYTES = 64, THREADS = 2 };
static char out[4 * BYTES], in[4 * BYTES];
static MPI_Comm of_thread[THREADS];

static void point_to_point(void) {
    int other = 1 - rank, flag;
    MPI_Status status;
    MPI_Message message;
    MPI_Sendrecv(out, 11, MPI_BYTE, other, 1, in, BYTES, MPI_BYTE, other, 1, MPI_COMM_WORLD, &status);
    expect_status(&status, other, 1, 11);
    if (rank == 0) {
        MPI_Send(out, 13, MPI_BYTE, other, 2, MPI_COMM_WORLD);
        MPI_Ssend(out, 17, MPI_BYTE, other, 3, MPI_COMM_WORLD);
        MPI_Send(out, 19, MPI_BYTE, other, 4, MPI_COMM_WORLD);
    } else {
        MPI_Probe(MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status);
        MPI_Recv(in, BYTES, MPI_BYTE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(in, BYTES, MPI_BYTE, other, 3, MPI_COMM_WORLD, &status);
        MPI_Mprobe(other, 4, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(in, BYTES, MPI_BYTE, &message, &status);
    }
    MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    EXPECT(!flag);
}

static void collectives(void) {
    int counts[2] = {7, 9}, displacements[2] = {0, 7};
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(in, 23, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Allreduce(out, in, 29, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    MPI_Reduce(out, in, 31, MPI_BYTE, MPI_BOR, 1, MPI_COMM_WORLD);
    MPI_Gather(out, 3, MPI_BYTE, in, 3, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Allgatherv(out, counts[rank], MPI_BYTE, in, counts, displacements, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Scatterv(out, counts, displacements, MPI_BYTE, in, counts[rank], MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Alltoall(out, 5, MPI_BYTE, in, 5, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Scan(out, in, 37, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    MPI_Ibcast(in, 41, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void requests(void) {
    int other = 1 - rank, flag, index, count, indices[2];
    MPI_Request pair[2];
    for (int way = 0; way < 4; way++) {
        MPI_Irecv(in, BYTES, MPI_BYTE, way == 1 ? MPI_ANY_SOURCE : other, way, MPI_COMM_WORLD, &pair[0]);
        MPI_Isend(out, 43, MPI_BYTE, other, way, MPI_COMM_WORLD, &pair[1]);
        if (way == 0) MPI_Waitany(2, pair, &index, MPI_STATUS_IGNORE);
        if (way == 1) MPI_Waitsome(2, pair, &count, indices, MPI_STATUSES_IGNORE);
        if (way == 2) MPI_Test(&pair[0], &flag, MPI_STATUS_IGNORE);
        MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
    }
    MPI_Recv_init(in, BYTES, MPI_BYTE, other, 5, MPI_COMM_WORLD, &pair[0]);
    MPI_Send_init(out, 47, MPI_BYTE, other, 5, MPI_COMM_WORLD, &pair[1]);
    for (int round = 0; round < 2; round++) {
        MPI_Startall(2, pair);
        MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&pair[0]);
    MPI_Request_free(&pair[1]);
}

static void communicators(void) {
    MPI_Comm made[6];
    MPI_Group group;
    MPI_Request request;
    int dims[1] = {2}, periods[1] = {1}, other[1] = {1 - rank};
    MPI_Comm_dup(MPI_COMM_WORLD, &made[0]);
    MPI_Comm_set_name(made[0], "copy");
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &made[1]);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 1, &made[2]);
    MPI_Neighbor_alltoall(out, 3, MPI_BYTE, in, 3, MPI_BYTE, made[2]);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, other, MPI_UNWEIGHTED, 1, other, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &made[3]);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &made[4]);
    MPI_Group_free(&group);
    MPI_Intercomm_create(made[1], 0, MPI_COMM_WORLD, other[0], 7, &made[5]);
    MPI_Barrier(made[5]);
    for (int at = 5; at >= 0; at--) MPI_Comm_free(&made[at]);
    MPI_Comm_idup(MPI_COMM_WORLD, &made[0], &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&made[0]);
}

static void windows(void) {
    MPI_Win window;
    MPI_Win_create(in, sizeof in, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(out, 53, MPI_BYTE, 1 - rank, 0, 53, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void files(void) {
    MPI_File file;
    MPI_Request request;
    MPI_File_open(MPI_COMM_WORLD, "each_kind.out", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, rank * BYTES, out, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_iread_at(file, rank * BYTES, in, BYTES, MPI_BYTE, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

#ifdef FORTRAN
void fortran_kinds(void);
#else
static void fortran_kinds(void) {}
#endif

static void *communicate(void *comm) {
    for (int round = 0; round < 8; round++)
        MPI_Allreduce(MPI_IN_PLACE, &(int){round}, 1, MPI_INT, MPI_SUM, *(MPI_Comm *)comm);
    return NULL;
}

static void threads(void) {
    pthread_t thread[THREADS];
    for (int at = 0; at < THREADS; at++) MPI_Comm_dup(MPI_COMM_WORLD, &of_thread[at]);
    for (int at = 0; at < THREADS; at++) pthread_create(&thread[at], NULL, communicate, &of_thread[at]);
    for (int at = 0; at < THREADS; at++) pthread_join(thread[at], NULL);
    for (int at = 0; at < THREADS; at++) MPI_Comm_free(&of_thread[at]);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    EXPECT(size == 2 && provided == MPI_THREAD_MULTIPLE);
    MPI_Pcontrol(0x4d505300, "kinds");
    point_to_point();
    collectives();
    requests();
    communicators();
    windows();
    files();
    fortran_kinds();
    threads();
    MPI_Pcontrol(0x4d505301);
    MPI_Finalize();
    return 0;
}
