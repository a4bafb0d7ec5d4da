/* buffers before|after|late|without DRIVER: communicates from memory of several kinds. The driver, which is pretended, CUDA's or
 * HIP, is loaded before MPI_Init, or after some calls, or before and initialised after some calls, or not at all. 2 ranks. */
#include "../program.h"
#include <dlfcn.h>

enum { HOST, PINNED, DEVICE };
static void (*pretend)(void *, size_t, unsigned, unsigned);

static int (*init)(unsigned);

static void load(const char *driver) {
    void *library = dlopen(driver, RTLD_NOW);
    if (library) {
        init = (int (*)(unsigned))dlsym(library, strstr(driver, "hip") ? "hipInit" : "cuInit");
    }
    pretend = library ? (void (*)(void *, size_t, unsigned, unsigned))dlsym(library, "pretend") : NULL;
    if (!init || !pretend) {
        fprintf(stderr, "not so: the driver is loaded\n");
        exit(8);
    }
}

static void mark(void *begin, unsigned kind, unsigned is_managed) {
    if (pretend) {
        pretend(begin, 4096, kind, is_managed);
    }
}

/* Many calls at one place, so that it is noticed that there is a driver. */
static void warm_up(void *to) {
    for (int i = 0; i < 4000; i++) {
        MPI_Allreduce(MPI_IN_PLACE, to, 3, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        return 7;
    }
    if (!strcmp(argv[1], "before") || !strcmp(argv[1], "late")) {
        load(argv[2]);
    }
    if (!strcmp(argv[1], "before") && init(0)) {
        return 8;
    }
    begin(&argc, &argv);
    EXPECT(size == 2);
    char *host = calloc(1, 4096), *device = calloc(1, 4096), *managed = calloc(1, 4096), *pinned = calloc(1, 4096);
    warm_up(host);
    if (!strcmp(argv[1], "after")) {
        load(argv[2]);
    }
    if (!strcmp(argv[1], "after") || !strcmp(argv[1], "late")) {
        EXPECT(!init(0));
        warm_up(host);
    }
    mark(device, DEVICE, 0);
    mark(managed, DEVICE, 1);
    mark(pinned, PINNED, 0);

    int peer = 1 - rank;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    /* One place, other kinds from call to call. */
    char *senders[] = {host, device, managed, pinned};
    for (int i = 0; i < 4; i++) {
        MPI_Request requests[2];
        MPI_Irecv(device + 1024, 2048, MPI_BYTE, peer, i, comm, &requests[0]);
        MPI_Isend(senders[i], 101 + i, MPI_BYTE, peer, i, comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    /* Of two buffers the one farther from the host counts; a place inside of an allocation is in it. */
    MPI_Allreduce(managed + 7, device + 100, 211, MPI_BYTE, MPI_BOR, comm);
    MPI_Allreduce(host, pinned, 223, MPI_BYTE, MPI_BOR, comm);
    MPI_Allreduce(MPI_IN_PLACE, managed, 227, MPI_BYTE, MPI_BOR, comm);
    MPI_Barrier(comm);
    MPI_Sendrecv(host, 307, MPI_BYTE, peer, 9, device, 307, MPI_BYTE, peer, 9, comm, MPI_STATUS_IGNORE);
    /* Persistent requests keep what they were made with. */
    MPI_Request persistent[2];
    MPI_Recv_init(pinned, 401, MPI_BYTE, peer, 11, comm, &persistent[0]);
    MPI_Send_init(device, 401, MPI_BYTE, peer, 11, comm, &persistent[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, persistent);
        MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
    }
    MPI_Start(&persistent[0]);
    MPI_Start(&persistent[1]);
    MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
    MPI_Request_free(&persistent[0]);
    MPI_Request_free(&persistent[1]);
    MPI_Win window;
    MPI_Win_create(device, 4096, 1, MPI_INFO_NULL, comm, &window);
    MPI_Win_fence(0, window);
    MPI_Put(pinned, 503, MPI_BYTE, peer, 0, 503, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    /* What is significant at the root alone may be anything elsewhere. */
    MPI_Gather(host, 701, MPI_BYTE, rank ? pinned : device, 701, MPI_BYTE, 1, comm);
    MPI_Scatter(rank ? host : device, 709, MPI_BYTE, pinned, 709, MPI_BYTE, 1, comm);
    MPI_Reduce(managed, device, 719, MPI_BYTE, MPI_BOR, 1, comm);
    MPI_Gather(host, 727, MPI_BYTE, device, 727, MPI_BYTE, 0, comm);
    /* Memory that is freed and used again by the host. */
    mark(device, HOST, 0);
    MPI_Bcast(device, 601, MPI_BYTE, 0, comm);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
