/* The program takes all memory that there is under a limit, leaves MPI 8 MB in pieces of 8000 bytes, and goes on with what the
 * profiler sees for the first time:
 *   sizes    calls and messages of new sizes
 *   isend    many requests at once
 *   thread   threads that begin and end
 *   comm     communicators of new shapes
 *   start    many persistent requests started by one call
 *   slow     slow calls through functions that have made none, without the pieces, with what there is in less than 16384 bytes
 *   local    regions and names, without the pieces
 * It does all of it once before, with recording off, so that MPI has what it needs, and once after, with memory. Right: both ranks
 * print "ok". */
#define _GNU_SOURCE
#include "common.h"
#include "mpisee.h"
#include <pthread.h>
#include <sys/resource.h>

enum { MANY = 1000, THREADS = 40, PIECES = 1000, STACK = 1 << 16 };
static int rank, size, in[MANY], next, before;
static char data[1 << 16], stacks[THREADS][STACK] __attribute__((aligned(4096)));

/* Each message finds its receive: MPI keeps one that does not, which takes memory. */
static void sizes(void) {
    enum { AT_ONCE = 200 };
    MPI_Request requests[AT_ONCE];
    int all[64];
    for (int bytes = 1; bytes <= 2048; bytes *= 2) {
        for (int i = 0; i < AT_ONCE; i++) MPI_Irecv(data + i, bytes, MPI_CHAR, before, i, MPI_COMM_WORLD, &requests[i]);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < AT_ONCE; i++) MPI_Send(data + 32768, i > 0 ? 1 : bytes, MPI_CHAR, next, i, MPI_COMM_WORLD);
        MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
        MPI_Bcast(data, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    }
    MPI_Allgather(data, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
}

static void isend(void) {
    static MPI_Request requests[2 * MANY];
    for (int i = 0; i < MANY; i++) MPI_Irecv(&in[i], 1, MPI_INT, before, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MANY; i++) MPI_Isend(&rank, 1, MPI_INT, next, i, MPI_COMM_WORLD, &requests[MANY + i]);
    /* MPICH allocates memory for the requests of one call. */
    for (int i = 0; i < 2 * MANY; i += 200) MPI_Waitall(200, &requests[i], MPI_STATUSES_IGNORE);
}

static void *work(void *nothing) {
    int one = 1, sum;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    return nothing;
}

static void thread(void) {
    for (int i = 0; i < THREADS; i++) {
        pthread_t it;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stacks[i], STACK);
        if (pthread_create(&it, &attributes, work, NULL) != 0) continue;
        pthread_join(it, NULL);
    }
}

static void comm(void) {
    for (int i = 0; i < 400; i++) {
        MPI_Comm new;
        MPI_Comm_split(MPI_COMM_WORLD, i % 2 ? 0 : rank, i % 3 ? rank : -rank, &new);
        MPI_Barrier(new);
        MPI_Comm_free(&new);
    }
}

static void start(void) {
    enum { AT_ONCE = 100 };
    static MPI_Request requests[2 * AT_ONCE];
    static int is_made;
    for (int i = 0; i < AT_ONCE && !is_made; i++) {
        MPI_Recv_init(&in[i], 1, MPI_INT, before, i, MPI_COMM_WORLD, &requests[i]);
        MPI_Send_init(&rank, 1, MPI_INT, next, i, MPI_COMM_WORLD, &requests[AT_ONCE + i]);
    }
    is_made = 1;
    MPI_Startall(AT_ONCE, requests);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Startall(AT_ONCE, &requests[AT_ONCE]);
    MPI_Waitall(2 * AT_ONCE, requests, MPI_STATUSES_IGNORE);
}

static __attribute__((noinline)) void wait_for_last(void) {
    if (rank == size - 1) usleep(5000);
    MPI_Barrier(MPI_COMM_WORLD);
}

static __attribute__((noinline)) void wait_twice(void) {
    wait_for_last();
    wait_for_last();
}

static void slow(void) {
    for (int i = 0; i < 10; i++) {
        wait_twice();
        wait_for_last();
    }
}

static void local(void) {
    for (int i = 0; i < 50; i++) {
        char name[16] = "name 00";
        name[5] += i / 10;
        name[6] += i % 10;
        mpisee_region_begin(name);
        MPI_Comm_set_name(MPI_COMM_WORLD, name);
        mpisee_region_end();
    }
}

static void *piece[PIECES], *between[PIECES];

/* What MPI may have later, each piece on its own: malloc puts what is free on both sides together. */
static void set_aside(int pieces) {
    for (int i = 0; i < pieces; i++) {
        piece[i] = malloc(8000);
        between[i] = malloc(16);
    }
}

/* All that malloc gives in `least` bytes or more, as a list, but for the pieces, which it can give again. */
static void *take(int pieces, size_t least) {
    void *list = NULL;
    for (size_t bytes = 1 << 20; bytes >= least; bytes /= 2)
        for (void *taken; (taken = malloc(bytes)) != NULL; list = taken) *(void **)taken = list;
    for (int i = 0; i < pieces; i++) free(piece[i]);
    return list;
}

int main(int argc, char **argv) {
    const struct {
        const char *name;
        void (*run)(void);
        int pieces;
        size_t least;
    } all[] = {{"sizes", sizes, PIECES, 16}, {"isend", isend, PIECES, 16}, {"thread", thread, PIECES, 16},
               {"comm", comm, PIECES, 16},   {"start", start, PIECES, 16}, {"slow", slow, 0, 16384},
               {"local", local, 0, 16}};
    int level;
    long pages = 0;
    watchdog();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!is(argc, argv, all[i].name)) continue;
        MPI_Pcontrol(0);
        all[i].run();
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Pcontrol(1);
        struct rlimit limit, none;
        set_aside(all[i].pieces);
        FILE *file = fopen("/proc/self/statm", "r");
        if (!file || fscanf(file, "%ld", &pages) != 1) return 9;
        fclose(file);
        getrlimit(RLIMIT_AS, &none);
        limit = none;
        limit.rlim_cur = pages * sysconf(_SC_PAGESIZE);
        setrlimit(RLIMIT_AS, &limit);
        void *list = take(all[i].pieces, all[i].least);
        all[i].run();
        while (list) {
            void *rest = *(void **)list;
            free(list);
            list = rest;
        }
        setrlimit(RLIMIT_AS, &none);
        all[i].run();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    ok(rank);
    MPI_Finalize();
    return 0;
}
