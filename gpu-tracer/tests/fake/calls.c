/* A program that uses the GPU, or thinks so, in ways that are rarer than those of program.c. The first argument is the image
 * of a module, the second what it does. */
#include "fake.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ALL 0xffffffffu
#define CONTEXT 1
#define MODULE 7

static char image[1 << 16];
static size_t image_bytes;
static uint64_t own;

static void launch(uint64_t stream, const char *kernel, uint64_t offset, uint64_t address, uint32_t bytes, uint32_t flags,
                   uint32_t warps) {
    struct fake_access access = {offset, address, ALL, bytes, flags, warps};
    fake_launch(CONTEXT, stream, MODULE, kernel, &access, 1);
}

/* Launches a kernel that accesses its own memory; says whether it was patched. */
static int is_patched(void) {
    unsigned before = fake_patched_launches();
    launch(1, "copy", 0x50, own, 8, FAKE_LOAD, 1);
    fake_stream_wait(CONTEXT, 1);
    return (int)(fake_patched_launches() - before);
}

/* Waits for the context until patches are gone; how often. */
static int waits(int most) {
    for (int turn = 0; turn <= most; turn++) {
        if (!is_patched()) {
            return turn;
        }
        fake_context_wait(CONTEXT);
    }
    return -1;
}

/* A thread that goes on: launching, then waiting if its argument says so. */
static pthread_barrier_t meeting;

static void *other_thread(void *unused) {
    launch(1, "copy", 0x50, own, 8, FAKE_LOAD, 1);
    pthread_barrier_wait(&meeting);
    pthread_barrier_wait(&meeting);
    fake_context_wait(CONTEXT);
    pthread_barrier_wait(&meeting);
    return unused;
}

/* Remote memory comes and goes. */
static void idle(void) {
    printf("%d", is_patched());
    for (int turn = 0; turn < 4; turn++) {
        uint64_t pinned = fake_host_alloc(CONTEXT, 4096);
        launch(1, "count", 0x40, pinned, 4, FAKE_ATOMIC, 1);
        fake_context_wait(CONTEXT);
        fake_context_wait(CONTEXT);
        fake_context_wait(CONTEXT);
        printf(" %d", is_patched());
        fake_free(pinned);
        printf(" %d", waits(20));
    }
    unsigned before = fake_patchings();
    for (int turn = 0; turn < 100; turn++) {
        uint64_t pinned = fake_host_alloc(CONTEXT, 4096);
        launch(1, "count", 0x40, pinned, 4, FAKE_ATOMIC, 1);
        fake_context_wait(CONTEXT);
        fake_free(pinned);
        fake_context_wait(CONTEXT);
    }
    printf("\n%u\n", fake_patchings() - before);
}

/* Of 400 steps, which end with a wait for the context and some with one for the stream before, some run with patches; another
 * kernel comes late, a third in a step of its own. `stream` has half of the launches of the first. Says how many launches were
 * patched. */
static void intervals_in(uint64_t stream) {
    uint64_t pinned = fake_host_alloc(CONTEXT, 4096);
    unsigned before = fake_patched_launches();
    for (int step = 0; step < 400; step++) {
        launch(1, "count", 0x40, pinned, 4, FAKE_ATOMIC, 3);
        launch(stream, "count", 0x40, pinned, 4, FAKE_ATOMIC, 3);
        if (step >= 200) {
            launch(1, "copy", 0xe0, pinned, 8, FAKE_STORE, 5);
        }
        if (step % 2) {
            fake_stream_wait(CONTEXT, stream);
        }
        fake_context_wait(CONTEXT);
    }
    launch(1, "other", 0x20, pinned, 8, FAKE_LOAD, 7);
    fake_context_wait(CONTEXT);
    printf("%u\n", fake_patched_launches() - before);
}

static void intervals(void) { intervals_in(1); }
static void intervals_of_streams(void) { intervals_in(2); }

/* Another thread launches, and does not wait. */
static void threads(void) {
    pthread_t thread;
    uint64_t pinned = fake_host_alloc(CONTEXT, 4096);
    launch(1, "count", 0x40, pinned, 4, FAKE_ATOMIC, 1);
    fake_context_wait(CONTEXT);
    fake_free(pinned);
    pthread_barrier_init(&meeting, NULL, 2);
    pthread_create(&thread, NULL, other_thread, NULL);
    pthread_barrier_wait(&meeting);
    printf("%d", waits(20));
    pthread_barrier_wait(&meeting);
    pthread_barrier_wait(&meeting);
    pthread_join(thread, NULL);
    printf(" %d\n", waits(20));
}

/* A kernel of a graph runs as it was when the graph was made. */
static void graph(void) {
    uint64_t peer = fake_alloc(CONTEXT, 1, 1 << 20, 0);
    struct fake_access one = {0xe0, peer, ALL, 8, FAKE_STORE, 3}, other = {0x40, 0, ALL, 4, FAKE_ATOMIC, 5};
    launch(1, "copy", 0xe0, peer, 8, FAKE_STORE, 1);
    fake_capture(3);
    fake_launch(CONTEXT, 3, MODULE, "copy", &one, 1);
    /* Memory comes while the stream is captured. */
    uint64_t pinned = fake_host_alloc(CONTEXT, 4096);
    other.address = pinned;
    fake_launch(CONTEXT, 3, MODULE, "count", &other, 1);
    launch(1, "copy", 0xe0, peer, 8, FAKE_STORE, 1);
    fake_stream_wait(CONTEXT, 1);
    fake_capture_end(3);
    for (int turn = 0; turn < 3; turn++) {
        fake_captured_launch(CONTEXT, 3);
        if (turn == 1) {
            fake_stream_wait(CONTEXT, 3);
        }
    }
    fake_stream_wait(CONTEXT, 3);
    usleep(30000);
    /* Of freed memory nothing is counted; memory that another launch of the graph meets is known. */
    fake_free(pinned);
    fake_captured_launch(CONTEXT, 3);
    fake_stream_wait(CONTEXT, 3);
    fake_free(peer);
    printf("%d\n", waits(20));
    /* Its kernels ran as they are meanwhile; there is memory again. */
    fake_alloc(CONTEXT, 1, 1 << 20, 0);
    fake_captured_launch(CONTEXT, 3);
    fake_stream_wait(CONTEXT, 3);
}

/* Kernels of a graph that were not chosen, of which NVBit says that others may call them, or that call what others do. */
static void unchosen(void) {
    uint64_t peer = fake_alloc(CONTEXT, 1, 1 << 20, 0);
    struct fake_access stores = {0x820, peer, ALL, 8, FAKE_STORE, 3}, counts = {0x40, peer, ALL, 4, FAKE_ATOMIC, 5};
    launch(1, "copy", 0xe0, peer, 8, FAKE_STORE, 1);
    launch(1, "calls", 0x1020, peer, 8, FAKE_STORE, 2);
    fake_capture(3);
    fake_launch(CONTEXT, 3, MODULE, "count", &counts, 1);
    fake_launch(CONTEXT, 3, MODULE, "also", &stores, 1);
    launch(1, "copy", 0xe0, peer, 8, FAKE_STORE, 1);
    launch(1, "calls", 0x1020, peer, 8, FAKE_STORE, 2);
    fake_capture_end(3);
    fake_captured_launch(CONTEXT, 3);
    fake_context_wait(CONTEXT);
}

/* Functions that kernels call, a library that is unloaded, and another at its place. */
static void functions(void) {
    uint64_t peer = fake_alloc(CONTEXT, 1, 1 << 20, 0);
    struct fake_access both[] = {{0x10, peer, ALL, 4, FAKE_LOAD, 2}, {0x1020, peer, ALL, 8, FAKE_STORE, 3}};
    fake_launch(CONTEXT, 1, MODULE, "calls", both, 2);
    launch(1, "also", 0x820, peer, 8, FAKE_STORE, 5);
    launch(1, "copy", 0xe0, peer, 8, FAKE_STORE, 7);
    fake_context_wait(CONTEXT);
    usleep(30000);
    fake_library_unload(CONTEXT, MODULE);
    fake_module(CONTEXT, MODULE, NULL, 0);
    fake_launch(CONTEXT, 1, MODULE, "calls", both, 1);
    launch(1, "copy", 0xe0, peer, 8, FAKE_STORE, 11);
    fake_context_wait(CONTEXT);
    usleep(30000);
    fake_free(peer);
    unsigned before = fake_patched_launches();
    for (int turn = 0; turn < 3; turn++) {
        fake_launch(CONTEXT, 1, MODULE, "calls", both, 2);
        launch(1, "also", 0x820, peer, 8, FAKE_STORE, 5);
        fake_context_wait(CONTEXT);
    }
    printf("%u\n", fake_patched_launches() - before);
}

/* Memory comes between launches, and a kernel that was launched before is put into a graph. */
static void late(void) {
    launch(1, "count", 0x40, own, 4, FAKE_ATOMIC, 1);
    uint64_t pinned = fake_host_alloc(CONTEXT, 4096);
    struct fake_access access = {0x40, pinned, ALL, 4, FAKE_ATOMIC, 3};
    fake_capture(3);
    fake_launch(CONTEXT, 3, MODULE, "count", &access, 1);
    fake_capture_end(3);
    fake_captured_launch(CONTEXT, 3);
    fake_stream_wait(CONTEXT, 3);
    fake_free(pinned);
}

/* Something remote comes while a stream has a kernel in it. What its launches count with is written behind that: until then
 * a launch in another stream finds nothing. */
static void behind(void) {
    launch(1, "copy", 0x50, own, 8, FAKE_LOAD, 1);
    uint64_t pinned = fake_host_alloc(CONTEXT, 4096);
    launch(1, "count", 0x40, pinned, 4, FAKE_ATOMIC, 2);
    launch(2, "count", 0x40, pinned, 4, FAKE_ATOMIC, 3);
    fake_stream_wait(CONTEXT, 2);
    fake_stream_wait(CONTEXT, 1);
    launch(2, "count", 0x40, pinned, 4, FAKE_ATOMIC, 5);
    fake_context_wait(CONTEXT);
}

/* Streams that go before what is in them has run; the next has the same number, and waits for nothing of them. */
static void streams(void) {
    uint64_t pinned = fake_host_alloc(CONTEXT, 4096);
    launch(1, "count", 0x40, pinned, 4, FAKE_ATOMIC, 1);
    launch(9, "count", 0x40, pinned, 4, FAKE_ATOMIC, 1);
    for (int turn = 0; turn < 3; turn++) {
        fake_stream_destroy(CONTEXT, 9);
        launch(9, "count", 0x40, pinned, 4, FAKE_ATOMIC, 1);
        fake_stream_wait(CONTEXT, 9);
        launch(9, "count", 0x40, pinned, 4, FAKE_ATOMIC, 1);
    }
    fake_context_wait(CONTEXT);
    fake_free(pinned);
}

/* A stream of the program has the first launch after there is something remote; then the NULL stream has one. */
static void own_stream(void) {
    uint64_t pinned = fake_host_alloc(CONTEXT, 4096);
    launch(9, "count", 0x40, pinned, 4, FAKE_ATOMIC, 2);
    fake_context_wait(CONTEXT);
    launch(1, "count", 0x40, pinned, 4, FAKE_ATOMIC, 3);
    launch(9, "count", 0x40, pinned, 4, FAKE_ATOMIC, 5);
    fake_context_wait(CONTEXT);
    fake_free(pinned);
    printf("%d\n", waits(20));
}

/* Memory of the host that is reported as if it were a device's, and parts of a block of another process. */
static void memory(void) {
    unsigned char first[64], second[64];
    uint64_t pinned = fake_alloc(CONTEXT, 0, 4096, FAKE_PINNED), block = fake_alloc(CONTEXT, 0, 1 << 21, 0);
    launch(1, "count", 0x40, pinned, 4, FAKE_ATOMIC, 2);
    fake_ipc_get(block + 0x3000, first);
    fake_ipc_get(block + 0x1000, second);
    uint64_t later = fake_ipc_open(first), earlier = fake_ipc_open(second);
    launch(1, "copy", 0xe0, later, 8, FAKE_STORE, 3);
    launch(1, "copy", 0x50, earlier, 8, FAKE_LOAD, 5);
    fake_stream_wait(CONTEXT, 1);
    usleep(30000);
    fake_ipc_close(earlier);
    launch(1, "copy", 0x50, earlier, 8, FAKE_LOAD, 7);
    launch(1, "copy", 0xe0, later, 8, FAKE_STORE, 11);
    fake_stream_wait(CONTEXT, 1);
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(void); } known[] = {
        {"idle", idle}, {"intervals", intervals}, {"intervals of streams", intervals_of_streams}, {"own stream", own_stream}, {"threads", threads}, {"graph", graph}, {"unchosen", unchosen}, {"functions", functions},
        {"late", late}, {"behind", behind}, {"streams", streams}, {"memory", memory}};
    FILE *file = count == 3 ? fopen(arguments[1], "rb") : NULL;
    image_bytes = file ? fread(image, 1, sizeof image, file) : 0;
    cuInit(0);
    fake_context(CONTEXT, 0);
    fake_context(2, 1);
    fake_module(CONTEXT, MODULE, image, image_bytes);
    own = fake_alloc(CONTEXT, 0, 1 << 20, 0);
    for (size_t at = 0; count == 3 && at < sizeof known / sizeof *known; at++) {
        if (strcmp(known[at].name, arguments[2]) == 0) {
            known[at].run();
        }
    }
    fake_module_unload(CONTEXT, MODULE);
    fake_context_destroy(CONTEXT);
    fflush(stdout);
    _exit(0);
}
