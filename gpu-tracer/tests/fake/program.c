/* A program that uses the GPU, or thinks so. The first argument is the image of a module, the second how it ends. */
#include "fake.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALL 0xffffffffu
#define CONTEXT 1
#define MODULE 7

static char image[1 << 16];

static void launch(uint64_t stream, const char *kernel, uint64_t offset, uint64_t address, uint32_t lanes,
                   uint32_t bytes, uint32_t flags, uint32_t warps) {
    struct fake_access access = {offset, address, lanes, bytes, flags, warps};
    fake_launch(CONTEXT, stream, MODULE, kernel, &access, 1);
}

static uint64_t make_peer(void) { return fake_alloc(CONTEXT, 1, 1 << 20, 0); }

/* As CUDA's runtime does, which was there first. */
static void unload_at_exit(void) {
    fake_end();
    fake_module_unload(CONTEXT, MODULE);
    fake_context_destroy(CONTEXT);
}

int main(int count, char **arguments) {
    if (count != 3) {
        return 2;
    }
    if (strcmp(arguments[2], "unload") == 0) {
        atexit(unload_at_exit);
    }
    FILE *file = fopen(arguments[1], "rb");
    size_t bytes = file ? fread(image, 1, sizeof image, file) : 0;
    cuInit(0);
    fake_context(CONTEXT, 0);
    fake_context(2, 1);
    fake_module(CONTEXT, MODULE, image, bytes);

    /* Nothing remote yet: nothing is patched. */
    uint64_t own = fake_alloc(CONTEXT, 0, 1 << 20, 0);
    launch(1, "copy", 0x50, own, ALL, 8, FAKE_LOAD, 100);
    fake_stream_wait(CONTEXT, 1);
    printf("%u patched\n", fake_patched_launches());

    uint64_t peer = make_peer();
    uint64_t pinned = fake_host_alloc(CONTEXT, 4096);
    uint64_t managed = fake_alloc(CONTEXT, 0, 8192, FAKE_MANAGED);
    static char registered[4096];
    fake_register(registered, sizeof registered);

    launch(1, "copy", 0x50, own, ALL, 8, FAKE_LOAD, 100);
    launch(1, "copy", 0xe0, peer, ALL, 8, FAKE_STORE, 11);
    launch(2, "count", 0x40, pinned, 0x7, 4, FAKE_ATOMIC, 1);
    launch(2, "count", 0x70, managed, 0x1, 16, FAKE_LOAD, 3);
    launch(3, "other", 0x20, (uint64_t)(uintptr_t)registered, 0xff, 1, FAKE_LOAD, 2);
    launch(3, "other", 0x30, peer, ALL, 4096, FAKE_STORE | FAKE_BULK, 5);
    launch(3, "other", 0x40, peer, ALL, 4, FAKE_PREFETCH, 5);
    launch(3, "ignored", 0x40, peer, ALL, 4, FAKE_LOAD, 5);
    struct fake_access in_graph = {0xe0, peer, 0xff, 8, FAKE_STORE, 1};
    fake_graph_launch(CONTEXT, 3, MODULE, "copy", &in_graph, 1);
    fake_context_wait(CONTEXT);
    usleep(30000);

    /* Freed while the kernel still waits, and the addresses used again by the next. */
    launch(1, "copy", 0xe0, peer, 0xf, 8, FAKE_STORE, 1);
    fake_free(peer);
    uint64_t again = make_peer();
    launch(1, "copy", 0xe0, again, 0x3, 8, FAKE_STORE, 1);
    fake_stream_wait(CONTEXT, 1);
    usleep(30000);

    /* Many come and go; later without a moment in which the program waits. */
    for (int turn = 0; turn < 1000; turn++) {
        uint64_t passing = fake_host_alloc(CONTEXT, 512);
        launch(4, "count", 0x50, passing, 0x1, 4, FAKE_LOAD, 1);
        if (turn % 3 == 0 && turn < 400) {
            fake_stream_wait(CONTEXT, 4);
        }
        fake_free(passing);
    }
    fake_stream_wait(CONTEXT, 4);
    usleep(30000);
    launch(4, "count", 0x60, pinned, 0x1, 4, FAKE_LOAD, 1);
    fake_stream_wait(CONTEXT, 4);

    /* It ends with a kernel for which it did not wait. */
    if (strcmp(arguments[2], "unload") == 0) {
        launch(4, "count", 0x60, pinned, 0x1, 4, FAKE_LOAD, 1);
        return 0;
    }

    /* Nothing remote any more. */
    fake_free(again);
    fake_free(pinned);
    fake_free(managed);
    fake_unregister(registered);
    unsigned before = fake_patched_launches();
    launch(1, "copy", 0x50, own, ALL, 8, FAKE_LOAD, 100);
    fake_stream_wait(CONTEXT, 1);
    printf("%u patched at the end\n", fake_patched_launches() - before);

    if (strcmp(arguments[2], "kill") == 0) {
        fflush(stdout);
        raise(SIGKILL);
    }
    fake_module_unload(CONTEXT, MODULE);
    fake_context_destroy(CONTEXT);
    if (strcmp(arguments[2], "leave") == 0) {
        fflush(stdout);
        _exit(0);
    }
    return 0;
}
