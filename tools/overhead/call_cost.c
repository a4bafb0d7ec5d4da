/* Cost of one MPI call, in nanoseconds, with as little else around it as possible.
 *
 * One process: MPI_COMM_WORLD has one rank, and no other rank, network or scheduler takes part. `cargo measure
 * calls` runs it without and with the profiler in turns; the difference is what the profiler adds.
 *
 *   call_cost             MPI_Init
 *   call_cost threads N   MPI_THREAD_MULTIPLE, N threads that call at the same time, each on its own communicator
 *   call_cost arrays [off] requests in arrays, persistent ones, tags that change, and regions
 *   call_cost cold        each call after a walk through more memory than the caches hold
 *   call_cost off         with MPI_Pcontrol(0)
 *   call_cost memory      the resident memory with 100 communicators and 20 operations on each, in KiB
 *   call_cost count       below `cargo xtask footprint`, with marks around each operation (x86-64)
 *
 * A line for each operation: its name and the median over batches. "two clock reads" is the floor: what any
 * profiler that times a call pays.
 */
#define _GNU_SOURCE
#include "tick.h"
#include "../../include/mpisee.h"
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 31, CALLS = 2000, COMMUNICATORS = 256, FEW_OPEN = 64, MANY_OPEN = 10000, CREATIONS = 100, MANY_COMMUNICATORS = 100 };
/* Requests of arrays, and calls on long ones in a batch. */
enum { LONG_ARRAY = 1000, SHORT_ARRAY = 16, LONG_CALLS = 20 };
/* Cold calls of each operation, and the bytes between two of them. */
enum { COLD_CALLS = 301, WALKED = 64 << 20, LINE = 64 };
/* Where instructions are counted: calls before those that count, in which slots and tables are made, and those. */
enum { WARM_UP = 20, WARM_UP_POLLS = 20000, COUNTED = 5 };
/* Unknown to the compiler, which would make two loops, with a call in each. */
static volatile int warm_up = WARM_UP, apart = 1;

static int counting, operations;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *name, double *batch, int count) {
    qsort(batch, (size_t)count, sizeof *batch, ascending);
    printf("%s\t%.2f\n", name, batch[count / 2]);
}

/* Stops the process where an operation begins (even) or ends (odd), for the one that traces it. */
static inline void mark(int number) {
#ifdef __x86_64__
    __asm__ volatile("int3" : : "a"(0x5eed00000000 | number) : "memory");
#else
    (void)number;
#endif
}

#define MARKED(STATEMENT) MARKED_IF(1, STATEMENT)

/* A call that is not marked is made in the same place of the program. */
#define MARKED_IF(MARKS_IT, STATEMENT)                     \
    do {                                                   \
        if (MARKS_IT) mark(2 * operations);                \
        STATEMENT;                                         \
        if (MARKS_IT) mark(2 * operations + 1);            \
    } while (0)

/* Ends the operation whose calls were marked. */
static void name_operation(const char *name) {
    printf("operation\t%s\n", name);
    ++operations;
}

/* STATEMENT, CALLS times a batch; the figure is for one of the IN calls in it. Threads but the first are silent. */
#define MEASURE(NAME, IN, STATEMENT)                                                      \
    do {                                                                                  \
        double batch[BATCHES];                                                            \
        if (counting) {                                                                   \
            for (int turn = 0; turn < warm_up + COUNTED * apart; ++turn) {                \
                int i = turn < WARM_UP ? turn : turn - WARM_UP;                           \
                (void)i;                                                                  \
                MARKED_IF(turn >= warm_up && turn % apart == 0, STATEMENT);               \
            }                                                                             \
            name_operation(NAME);                                                         \
            break;                                                                        \
        }                                                                                 \
        for (int b = 0; b < BATCHES; ++b) {                                               \
            double start = now_ns();                                                      \
            for (int i = 0; i < CALLS; ++i) { STATEMENT; }                                \
            batch[b] = (now_ns() - start) / ((double)CALLS * (IN));                       \
        }                                                                                 \
        if (speaks) report(NAME, batch, BATCHES);                                         \
    } while (0)

/* As MEASURE, of polls that find nothing: the first ones are timed, and those behind one that is traced, which takes long. */
#define MEASURE_POLL(NAME, STATEMENT)    \
    do {                                 \
        warm_up = WARM_UP_POLLS;         \
        apart = WARM_UP_POLLS;           \
        MEASURE(NAME, 1, STATEMENT);     \
        warm_up = WARM_UP;               \
        apart = 1;                       \
    } while (0)

/* Communication on one communicator of one process. */
static void calls(MPI_Comm comm, int speaks) {
    MPI_Request r[2];
    MPI_Status s[2];
    double in[8] = {0}, out[8] = {0};
    int flag;
    volatile unsigned long long sink = 0;

    MEASURE("two clock reads", 1, sink += tick() - tick());
    MEASURE("Barrier", 1, MPI_Barrier(comm));
    MEASURE("Bcast", 1, MPI_Bcast(in, 8, MPI_DOUBLE, 0, comm));
    MEASURE("Allreduce", 1, MPI_Allreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, comm));
    MEASURE("Alltoall", 1, MPI_Alltoall(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, comm));
    MEASURE("Sendrecv", 1, MPI_Sendrecv(in, 8, MPI_DOUBLE, 0, 1, out, 8, MPI_DOUBLE, 0, 1, comm, MPI_STATUS_IGNORE));
    MEASURE_POLL("Iprobe", MPI_Iprobe(0, 99, comm, &flag, MPI_STATUS_IGNORE));
    MEASURE("Irecv, Isend, Waitall", 3, {
        MPI_Irecv(out, 8, MPI_DOUBLE, 0, 2, comm, &r[0]);
        MPI_Isend(in, 8, MPI_DOUBLE, 0, 2, comm, &r[1]);
        MPI_Waitall(2, r, s);
    });
}

/* Drives what the last call has used out of the caches. */
static void walk(void) {
    static volatile char *memory;
    if (memory == NULL) memory = calloc(WALKED, 1);
    if (memory == NULL) {
        fprintf(stderr, "call_cost: no memory to walk through\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (size_t at = 0; at < WALKED; at += LINE) ++memory[at];
}

static double ns_per_tick(void) {
    double start_ns = now_ns();
    unsigned long long start = tick();
    while (now_ns() - start_ns < 5e7) {}
    return (now_ns() - start_ns) / (double)(tick() - start);
}

/* Adds the ticks of one call after a walk. */
#define TIME_COLD(SUM, STATEMENT)             \
    do {                                      \
        unsigned long long start;             \
        walk();                               \
        start = tick();                       \
        STATEMENT;                            \
        SUM += (double)(tick() - start);      \
    } while (0)

/* One of IN calls; STATEMENTS are of TIME_COLD. */
#define MEASURE_COLD(NAME, IN, STATEMENTS)                   \
    do {                                                     \
        double batch[COLD_CALLS];                            \
        for (int b = 0; b < COLD_CALLS; ++b) {               \
            double sum = 0;                                  \
            STATEMENTS;                                      \
            batch[b] = sum * tick_ns / (IN);                 \
        }                                                    \
        report(NAME, batch, COLD_CALLS);                     \
    } while (0)

static void cold_calls(MPI_Comm comm) {
    MPI_Request r[2];
    MPI_Status s[2];
    double in[8] = {0}, out[8] = {0}, tick_ns = ns_per_tick();
    int flag;
    volatile unsigned long long sink = 0;

    MEASURE_COLD("two clock reads", 1, TIME_COLD(sum, sink += tick() - tick()));
    MEASURE_COLD("Barrier", 1, TIME_COLD(sum, MPI_Barrier(comm)));
    MEASURE_COLD("Bcast", 1, TIME_COLD(sum, MPI_Bcast(in, 8, MPI_DOUBLE, 0, comm)));
    MEASURE_COLD("Allreduce", 1, TIME_COLD(sum, MPI_Allreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, comm)));
    MEASURE_COLD("Iprobe", 1, TIME_COLD(sum, MPI_Iprobe(0, 99, comm, &flag, MPI_STATUS_IGNORE)));
    MEASURE_COLD("Irecv, Isend, Waitall", 3, {
        TIME_COLD(sum, MPI_Irecv(out, 8, MPI_DOUBLE, 0, 2, comm, &r[0]));
        TIME_COLD(sum, MPI_Isend(in, 8, MPI_DOUBLE, 0, 2, comm, &r[1]));
        TIME_COLD(sum, MPI_Waitall(2, r, s));
    });
}

/* A message of one process to itself, of which only one side is marked. */
static void sides_of_messages(MPI_Comm comm) {
    MPI_Request other;
    double in[8] = {0}, out[8] = {0};
    for (int i = 0; i < COUNTED; ++i) {
        MPI_Irecv(out, 8, MPI_DOUBLE, 0, 3, comm, &other);
        MARKED(MPI_Send(in, 8, MPI_DOUBLE, 0, 3, comm));
        MPI_Wait(&other, MPI_STATUS_IGNORE);
    }
    name_operation("Send");
    for (int i = 0; i < COUNTED; ++i) {
        MPI_Isend(in, 8, MPI_DOUBLE, 0, 3, comm, &other);
        MARKED(MPI_Recv(out, 8, MPI_DOUBLE, 0, 3, comm, MPI_STATUS_IGNORE));
        MPI_Wait(&other, MPI_STATUS_IGNORE);
    }
    name_operation("Recv");
}

/* The same with many requests open: a table of requests must not slow down as it fills. */
static void with_open_requests(MPI_Comm comm, int count, const char *name, const char *test_name) {
    static MPI_Request open[MANY_OPEN];
    MPI_Request r[2];
    MPI_Status s[2];
    double in[8] = {0}, out[8] = {0};
    int flag, index, speaks = 1;
    /* The library's own search for a match is short: these wait for another tag on another communicator. */
    MPI_Comm aside;
    MPI_Comm_dup(comm, &aside);
    for (int i = 0; i < count; ++i) MPI_Irecv(out, 8, MPI_DOUBLE, 0, i, aside, &open[i]);
    MEASURE(name, 3, {
        MPI_Irecv(out, 8, MPI_DOUBLE, 0, 2, comm, &r[0]);
        MPI_Isend(in, 8, MPI_DOUBLE, 0, 2, comm, &r[1]);
        MPI_Waitall(2, r, s);
    });
    MEASURE_POLL(test_name, MPI_Test(&open[count / 2], &flag, MPI_STATUS_IGNORE));
    if (count == FEW_OPEN) MEASURE_POLL("Testany, 8 of 64 open", MPI_Testany(8, open, &index, &flag, MPI_STATUS_IGNORE));
    for (int i = 0; i < count; ++i) {
        MPI_Send(in, 8, MPI_DOUBLE, 0, i, aside);
        MPI_Wait(&open[i], MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&aside);
}

/* Nanoseconds of one of the IN requests in STATEMENT, which is made a few times a batch. */
#define MEASURE_LONG(NAME, IN, STATEMENT)                              \
    do {                                                               \
        double batch[BATCHES];                                         \
        for (int b = 0; b < BATCHES; ++b) {                            \
            double start = now_ns();                                   \
            for (int i = 0; i < LONG_CALLS; ++i) { STATEMENT; }        \
            batch[b] = (now_ns() - start) / ((double)LONG_CALLS * (IN)); \
        }                                                              \
        report(NAME, batch, BATCHES);                                  \
    } while (0)

/* What takes longer the more requests an array has, per request; and what has no array of its own in other modes. */
static void arrays(MPI_Comm comm) {
    static MPI_Request r[LONG_ARRAY];
    static MPI_Status statuses[LONG_ARRAY];
    static double in[8], out[8];
    int speaks = 1, flag, done, indices[LONG_ARRAY];

    MEASURE_LONG("500 Irecv, 500 Isend, Waitall of 1000, per request", LONG_ARRAY, {
        for (int k = 0; k < LONG_ARRAY; k += 2) {
            MPI_Irecv(out, 8, MPI_DOUBLE, 0, 2, comm, &r[k]);
            MPI_Isend(in, 8, MPI_DOUBLE, 0, 2, comm, &r[k + 1]);
        }
        MPI_Waitall(LONG_ARRAY, r, statuses);
    });
    for (int k = 0; k < LONG_ARRAY; ++k) MPI_Irecv(out, 8, MPI_DOUBLE, 0, 3, comm, &r[k]);
    MEASURE_LONG("Testsome, 1000 open, per request", LONG_ARRAY,
                 MPI_Testsome(LONG_ARRAY, r, &done, indices, statuses));
    MEASURE_LONG("Testany, 1000 open, per request", LONG_ARRAY,
                 MPI_Testany(LONG_ARRAY, r, &done, &flag, MPI_STATUS_IGNORE));
    for (int k = 0; k < LONG_ARRAY; ++k) MPI_Send(in, 8, MPI_DOUBLE, 0, 3, comm);
    MPI_Waitall(LONG_ARRAY, r, statuses);
    for (int k = 0; k < SHORT_ARRAY; k += 2) {
        MPI_Recv_init(out, 8, MPI_DOUBLE, 0, 4, comm, &r[k]);
        MPI_Send_init(in, 8, MPI_DOUBLE, 0, 4, comm, &r[k + 1]);
    }
    MEASURE("Startall, Waitall of 16 persistent, per request", SHORT_ARRAY, {
        MPI_Startall(SHORT_ARRAY, r);
        MPI_Waitall(SHORT_ARRAY, r, statuses);
    });
    for (int k = 0; k < SHORT_ARRAY; ++k) MPI_Request_free(&r[k]);
    int tag = 0;
    MEASURE("Irecv, Send, Wait, the tag changes", 3, {
        tag = (tag + 1) % 30000;
        MPI_Irecv(out, 8, MPI_DOUBLE, 0, tag, comm, &r[0]);
        MPI_Send(in, 8, MPI_DOUBLE, 0, tag, comm);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    });
    MEASURE("the same from MPI_ANY_SOURCE", 3, {
        tag = (tag + 1) % 30000;
        MPI_Irecv(out, 8, MPI_DOUBLE, MPI_ANY_SOURCE, tag, comm, &r[0]);
        MPI_Send(in, 8, MPI_DOUBLE, 0, tag, comm);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    });
    MEASURE("a region of include/mpisee.h, begin and end", 1, {
        mpisee_region_begin("region");
        mpisee_region_end();
    });
}

static void communicators(void) {
    MPI_Comm comms[COMMUNICATORS], world = MPI_COMM_WORLD;
    double in[8] = {0}, out[8] = {0};
    int speaks = 1;
    for (int i = 0; i < COMMUNICATORS; ++i) MPI_Comm_dup(world, &comms[i]);
    MEASURE("Allreduce on 256 communicators", 1,
            MPI_Allreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, comms[i * 97 % COMMUNICATORS]));
    for (int i = 0; i < COMMUNICATORS; ++i) MPI_Comm_free(&comms[i]);
    if (counting) {
        MEASURE("Comm_dup", 1, MPI_Comm_dup(world, &comms[i]));
        MEASURE("Comm_split", 1, MPI_Comm_split(world, 0, 0, &comms[i]));
        return;
    }

    double dup[BATCHES], split[BATCHES], freed[BATCHES];
    for (int b = 0; b < BATCHES; ++b) {
        double t0 = now_ns();
        for (int i = 0; i < CREATIONS; ++i) MPI_Comm_dup(world, &comms[i]);
        double t1 = now_ns();
        for (int i = 0; i < CREATIONS; ++i) MPI_Comm_free(&comms[i]);
        double t2 = now_ns();
        for (int i = 0; i < CREATIONS; ++i) MPI_Comm_split(world, 0, 0, &comms[i]);
        double t3 = now_ns();
        for (int i = 0; i < CREATIONS; ++i) MPI_Comm_free(&comms[i]);
        dup[b] = (t1 - t0) / CREATIONS;
        freed[b] = (t2 - t1) / CREATIONS;
        split[b] = (t3 - t2) / CREATIONS;
    }
    report("Comm_dup", dup, BATCHES);
    report("Comm_split", split, BATCHES);
    report("Comm_free", freed, BATCHES);
}

/* Twenty operations on each of many communicators, and the memory that the process has then. */
static void memory(void) {
    MPI_Comm comms[MANY_COMMUNICATORS];
    double in[8] = {0}, out[8] = {0};
    int flag;
    for (int i = 0; i < MANY_COMMUNICATORS; ++i) {
        MPI_Comm c;
        MPI_Request r[2];
        MPI_Status s[2];
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        c = comms[i];
        MPI_Barrier(c);
        MPI_Bcast(in, 8, MPI_DOUBLE, 0, c);
        MPI_Reduce(in, out, 8, MPI_DOUBLE, MPI_SUM, 0, c);
        MPI_Allreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, c);
        MPI_Scan(in, out, 8, MPI_DOUBLE, MPI_SUM, c);
        MPI_Gather(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, 0, c);
        MPI_Allgather(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, c);
        MPI_Scatter(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, 0, c);
        MPI_Alltoall(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, c);
        MPI_Reduce_scatter_block(in, out, 8, MPI_DOUBLE, MPI_SUM, c);
        MPI_Ibarrier(c, &r[0]);
        MPI_Wait(&r[0], &s[0]);
        MPI_Iallreduce(in, out, 8, MPI_DOUBLE, MPI_SUM, c, &r[0]);
        MPI_Ibcast(in, 8, MPI_DOUBLE, 0, c, &r[1]);
        MPI_Waitall(2, r, s);
        MPI_Irecv(out, 8, MPI_DOUBLE, 0, 1, c, &r[0]);
        MPI_Send(in, 8, MPI_DOUBLE, 0, 1, c);
        MPI_Test(&r[0], &flag, &s[0]);
        if (!flag) MPI_Wait(&r[0], &s[0]);
        MPI_Sendrecv(in, 8, MPI_DOUBLE, 0, 2, out, 8, MPI_DOUBLE, 0, 2, c, &s[0]);
        MPI_Iprobe(0, 99, c, &flag, &s[0]);
        MPI_Comm_set_name(c, "many");
    }
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0) printf("resident memory\t%ld\n", atol(line + 6));
    if (status != NULL) fclose(status);
    for (int i = 0; i < MANY_COMMUNICATORS; ++i) MPI_Comm_free(&comms[i]);
}

static void print_mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) printf("map\t%s", line);
    if (maps != NULL) fclose(maps);
}

static void *other_thread(void *comm) {
    calls(*(MPI_Comm *)comm, 0);
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 2 && strcmp(argv[1], "threads") == 0 ? atoi(argv[2]) : 0;
    int provided = MPI_THREAD_SINGLE, size;
    if (threads > 0) {
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
        if (provided != MPI_THREAD_MULTIPLE) {
            fprintf(stderr, "call_cost: this MPI does not provide MPI_THREAD_MULTIPLE\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    } else {
        MPI_Init(&argc, &argv);
    }
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 1) {
        fprintf(stderr, "call_cost: start it with one process, not %d\n", size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (argc > 1 && strcmp(argv[1], "off") == 0) MPI_Pcontrol(0);
    if (argc > 1 && strcmp(argv[1], "count") == 0) counting = 1;
    if (argc > 1 && strcmp(argv[1], "memory") == 0) {
        memory();
        MPI_Finalize();
        return 0;
    }

    if (argc > 1 && strcmp(argv[1], "arrays") == 0) {
        if (argc > 2) MPI_Pcontrol(0);
        arrays(MPI_COMM_WORLD);
        MPI_Finalize();
        return 0;
    }

    if (argc > 1 && strcmp(argv[1], "cold") == 0) {
        cold_calls(MPI_COMM_WORLD);
        MPI_Finalize();
        return 0;
    }

    pthread_t other[16];
    MPI_Comm own[16];
    for (int t = 1; t < threads && t < 16; ++t) {
        MPI_Comm_dup(MPI_COMM_WORLD, &own[t]);
        pthread_create(&other[t], NULL, other_thread, &own[t]);
    }
    calls(MPI_COMM_WORLD, 1);
    for (int t = 1; t < threads && t < 16; ++t) pthread_join(other[t], NULL);
    if (threads == 0) {
        with_open_requests(MPI_COMM_WORLD, FEW_OPEN, "Irecv, Isend, Waitall, 64 open", "Test, 64 open");
        communicators();
        if (counting) sides_of_messages(MPI_COMM_WORLD);
        with_open_requests(MPI_COMM_WORLD, MANY_OPEN, "Irecv, Isend, Waitall, 10000 open", "Test, 10000 open");
    }
    if (counting) print_mappings();
    MPI_Finalize();
    return 0;
}
