/* Rank 0 shares memory of its GPU with rank 1 in every way but CUDA IPC: by file descriptors over a socket, by fabric handles
 * and by pointers of a pool. Kernels of rank 1 write to it. All are PEs of NVSHMEM, rank 0 is PE 1 and rank 1 PE 0. The GPU,
 * its driver, its kernels and NVSHMEM are fake, see gpu-tracer/tests/fake. */
#include <fake.h>
#include <fcntl.h>
#include <mpi.h>
#include <mpisee.h>
#include <nvshmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LATE 65536
#define TWICE 8192
#define LARGE 131072
#define FABRIC 12288
#define POOL 20480
#define UNKNOWN 16384
#define HEAP 32768
/* As many numbers has a file descriptor room for. */
#define NUMBERS 64

static const struct sockaddr_un place = {.sun_family = AF_UNIX, .sun_path = "sharing.socket"};

static void must(int is_so, const char *what) {
    if (!is_so) {
        perror(what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* One end of a socket between ranks 0 and 1. */
static int connected(int rank) {
    int own = socket(AF_UNIX, SOCK_STREAM, 0);
    if (rank == 0) {
        must(bind(own, (const struct sockaddr *)&place, sizeof place) == 0, "bind");
        must(listen(own, 1) == 0, "listen");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        return accept(own, NULL, NULL);
    }
    must(rank != 1 || connect(own, (const struct sockaddr *)&place, sizeof place) == 0, "connect");
    return own;
}

/* A message with a descriptor, which is closed. */
static void send_file(int to, int file) {
    union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr header; } control = {{0}};
    char byte = 0;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &file, sizeof file);
    must(sendmsg(to, &message, 0) == 1, "sendmsg");
    close(file);
}

/* The handle of what a descriptor stands for that comes. */
static uint64_t received(int from) {
    union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr header; } control = {{0}};
    char byte;
    int file;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    must(recvmsg(from, &message, 0) == 1, "recvmsg");
    memcpy(&file, CMSG_DATA(&control.header), sizeof file);
    uint64_t handle = fake_import_file(file);
    close(file);
    return handle;
}

static void name(uint64_t address, size_t bytes, const char *text) {
    mpisee_name_memory((const void *)(uintptr_t)address, bytes, text);
}

static uint64_t named(int device, size_t bytes, const char *text) {
    uint64_t handle = fake_create(device, bytes);
    name(fake_map(handle, 0, bytes), bytes, text);
    return handle;
}

/* Warps of 8 bytes for each lane. */
static void store(uint64_t address, uint32_t warps) {
    struct fake_access access = {0xe0, address, 0xffffffffu, 8, FAKE_STORE, warps};
    fake_launch(1, 1, 7, "copy", &access, 1);
    fake_stream_wait(1, 1);
}

static void give(int to, unsigned char fabric[64], unsigned char pool[64]) {
    /* Exported before it is mapped, and named after that. */
    uint64_t late = fake_create(0, LATE);
    send_file(to, fake_export_file(late));
    name(fake_map(late, 0, LATE), LATE, "late name");
    /* Two of one number and size, and one of the number of the first, which is larger. */
    send_file(to, fake_export_file(named(0, TWICE, "one of two")));
    for (int at = 2; at < NUMBERS; at++) {
        close(fake_export_file(fake_create(0, TWICE)));
    }
    uint64_t large = named(0, LARGE, "large");
    send_file(to, fake_export_file(large));
    close(fake_export_file(named(0, TWICE, "other of two")));
    /* The same memory again has the same number. */
    send_file(to, fake_export_file(large));

    uint64_t flags = fake_map(fake_create(0, FABRIC), 0, FABRIC);
    name(flags, FABRIC, "by fabric");
    fake_export_fabric(fake_retain(flags), fabric);
    uint64_t queue = fake_pool_alloc(0, POOL);
    name(queue, POOL, "of a pool");
    fake_pool_export(queue, pool);
}

static void take(int from, const unsigned char fabric[64], const unsigned char pool[64]) {
    uint64_t late = fake_map(received(from), 0, LATE);
    store(late, 2);
    fake_unmap(late, LATE);
    uint64_t twice = received(from);
    store(fake_map(twice, 0, TWICE), 3);
    /* A part of it, and then all of it. */
    uint64_t large = received(from);
    uint64_t part = fake_map(large, LATE, 4096);
    store(part, 4);
    /* The name given here is preferred. */
    name(part + 2048, 2048, "mine");
    store(part + 2048, 1);
    large = received(from);
    store(fake_map(large, 0, LARGE), 5);
    store(fake_map(fake_import_fabric(fabric), 0, FABRIC), 6);
    store(fake_pool_import(pool), 7);
    /* Nobody says whose it is. */
    int file = open("/dev/null", O_RDWR);
    store(fake_map(fake_import_file(file), 0, UNKNOWN), 8);
    close(file);
    /* Its own memory by a detour, on its own device. */
    file = fake_export_file(named(1, TWICE, "own"));
    store(fake_map(fake_import_file(file), 0, TWICE), 16);
    close(file);
}

/* Two have each other's heaps, by descriptors that do not say whose they are. That of the third is out of reach, and it never
 * says that it has one. */
static void symmetric(int rank) {
    int file = open("/dev/null", O_RDWR);
    uint64_t own = fake_nvshmem_heap(rank, HEAP);
    uint64_t other = fake_map(fake_import_file(file), 0, HEAP);
    close(file);
    /* Not yet initialised; and only its number may be queried while the driver reports this. */
    store(other, 1);
    uint64_t base[3] = {rank == 1 ? own : other, rank == 1 ? other : own, 0};
    if (rank == 2) {
        fake_nvshmem_init(2, 3, (uint64_t[]){0, 0, own}, HEAP);
        return;
    }
    fake_nvshmem_init(1 - rank, 3, base, HEAP);
    fake_nvshmem_allow(1);
    name(own + 4096, 4096, "symmetric");
    fake_nvshmem_allow(0);
    /* Memory that is not NVSHMEM's is not looked up. */
    named(rank, TWICE, "ordinary");
    store(other + 4096, rank == 1 ? 9 : 10);
}

int main(int count, char **arguments) {
    unsigned char fabric[64] = {0}, pool[64] = {0};
    int rank;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    cuInit(0);
    fake_context(1, rank);
    fake_module(1, 7, NULL, 0);
    int other = connected(rank);
    if (rank == 0) {
        give(other, fabric, pool);
    }
    MPI_Bcast(fabric, sizeof fabric, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Bcast(pool, sizeof pool, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 1) {
        take(other, fabric, pool);
    }
    symmetric(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
