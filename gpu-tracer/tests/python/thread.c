/* Launches from a thread that Python does not know, and from one that outlives Python. */
#include "../fake/fake.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

struct launch {
    uint64_t context, stream, module;
    const char *kernel;
    const struct fake_access *accesses;
    size_t count;
};

static void *run(void *data) {
    const struct launch *it = data;
    fake_launch(it->context, it->stream, it->module, it->kernel, it->accesses, it->count);
    return NULL;
}

void launch_in_thread(uint64_t context, uint64_t stream, uint64_t module, const char *kernel,
                      const struct fake_access *accesses, size_t count) {
    struct launch launch = {context, stream, module, kernel, accesses, count};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, &launch) == 0) {
        pthread_join(thread, NULL);
    }
}

static atomic_int is_ending, has_ended;

/* The interpreter is gone by now; the other thread goes on. */
static void at_exit(void) {
    usleep(200000);
    is_ending = 1;
    while (!has_ended) {
        usleep(1000);
    }
    fake_module_unload(1, 7);
    fake_context_destroy(1);
    _exit(0);
}

void launch_until_exit(uint64_t context, uint64_t stream, uint64_t module, const char *kernel,
                       const struct fake_access *accesses, size_t count) {
    atexit(at_exit);
    while (!is_ending) {
        for (int turn = 0; turn < 50; turn++) {
            fake_launch(context, stream, module, kernel, accesses, count);
        }
        fake_stream_wait(context, stream);
    }
    has_ended = 1;
    pause();
}
