/* Copies in a process that something is special about; the argument says what. */
#include "copies.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define BYTES 65536

/* In place of the profiler of MPI. */
static void (*collect)(void);
static void (*communicated)(uint32_t communicator, const void *buffer, uint64_t bytes, int is_sent);

void mpisee_gpu_attach(void (*given)(void), void (*name)(const void *, size_t, const char *)) {
    (void)name;
    collect = given;
}

void mpisee_gpu_attach_copies(void (*given)(uint32_t, const void *, uint64_t, int)) { communicated = given; }

static char host[BYTES], *device;

/* A batch of more copies than there is memory for. */
static void batch(void) {
    size_t count = (1 << 20) + 10, pages = 0;
    void **to = malloc(count * sizeof *to), **from = malloc(count * sizeof *from);
    size_t *sizes = malloc(count * sizeof *sizes);
    for (size_t at = 0; at < count; at++) {
        to[at] = device + at % BYTES;
        from[at] = host + at % BYTES;
        sizes[at] = 1;
    }
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%zu", &pages) != 1) {
        exit(2);
    }
    fclose(file);
    rlim_t most = pages * (size_t)sysconf(_SC_PAGESIZE) + (8 << 20);
    setrlimit(RLIMIT_AS, &(struct rlimit){most, RLIM_INFINITY});
    cuMemcpyBatchAsync_v2(to, from, sizes, count, NULL, NULL, 0, NULL);
    setrlimit(RLIMIT_AS, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
}

/* Blocks of 64 x 32 elements to and from arrays. */
static void blocks(void) {
    void *array = fake_alloc_array(0x20, 4), *unknown = fake_alloc_array(0, 1);
    struct fake_operand memory = {.kind = 1, .address = host}, far = {.kind = 1, .address = device};
    struct fake_block copies[] = {
        {.from = memory, .to = {.kind = 2, .address = array}, .width = 64, .height = 32, .depth = 1},
        {.from = memory, .to = far, .width = 64, .height = 32, .depth = 1},
        {.from = memory, .to = {.kind = 2, .address = unknown}, .width = 64, .height = 32, .depth = 1},
    };
    cuMemcpy3DBatchAsync_v2(3, copies, 0, NULL);
    /* All 32768 bytes are sent. */
    struct fake_block back = {.from = copies[0].to, .to = memory, .width = 64, .height = 32, .depth = 1};
    cuMemcpy3DBatchAsync_v2(1, &back, 0, NULL);
    communicated(3, host, BYTES, 1);
}

/* What is sent, and copied to the device, was written by other copies than those of the device and of messages. */
static void over(void) {
    char *managed = fake_alloc_managed(BYTES);
    cuMemcpyDtoH_v2(host, device, 4000);
    cuMemcpy(host, host + 32768, 3000);
    communicated(3, host, 4000, 1);
    cuMemcpy(managed, device, 4000);
    cuMemsetD32_v2(managed, 7, 500);
    communicated(3, managed, 4000, 1);
    communicated(4, host, 4000, 0);
    cuMemcpy(host, host + 32768, 3000);
    cuMemcpyHtoD_v2(device, host, 4000);
}

/* The end of a process of MPI, which has a segment. */
static void end(void) {
    communicated(3, host, 10, 1);
    for (int at = 0; at < 7; at++) {
        cuMemcpyHtoD_v2(device, host, 64);
    }
    cuMemcpyDtoH_v2(host, device, 0); /* fails */
    communicated(3, host, 10, 1);
    collect();
    communicated(3, host, 10, 1);
    collect();
}

static void begin_segment(void) {
    char name[4096];
    snprintf(name, sizeof name, "%s/mpisee-%d-%d-1a.segment", getenv("MPISEE_SEGMENTS"), (int)getuid(), (int)getpid());
    FILE *file = fopen(name, "w");
    if (!file) {
        exit(2);
    }
    fclose(file);
}

static void *copy_under_lock(void *unused) {
    fake_report_locked();
    usleep(50000);
    cuMemcpyHtoD_v2(device, host, 1);
    return unused;
}

static void *end_late(void *unused) {
    sleep(10);
    _exit(3);
    return unused;
}

/* One thread waits for the driver's lock to name a device, while another copies with it. */
static void names(void) {
    pthread_t other;
    pthread_create(&other, NULL, end_late, NULL);
    pthread_create(&other, NULL, copy_under_lock, NULL);
    usleep(10000);
    cuMemcpyHtoD_v2(device, host, 2);
    pthread_join(other, NULL);
}

static void *copy_once(void *unused) {
    cuMemcpyHtoD_v2(device, host, 3);
    return unused;
}

static void *copy_twice(void *unused) {
    for (int at = 0; at < 2; at++) {
        cuMemcpyHtoD_v2(device, host, 5);
        cuMemcpyDtoH_v2(host, device, 6);
    }
    return unused;
}

/* A thread with the smallest stack that there may be has the first copies of the process. */
static void small_stack(void) {
    pthread_t other;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, 16384) || pthread_create(&other, &attributes, copy_twice, NULL)) {
        exit(2);
    }
    pthread_join(other, NULL);
}

/* See constructor.c, which is loaded and waits for the first copy of another thread. */
void copy_in_thread(void) {
    pthread_t other;
    pthread_create(&other, NULL, copy_once, NULL);
    pthread_join(other, NULL);
}

static void constructor(void) {
    pthread_t late;
    pthread_create(&late, NULL, end_late, NULL);
    if (!dlopen("libconstructor.so", RTLD_NOW)) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "exit")) {
        begin_segment();
        atexit(end);
    }
    cuInit(0);
    device = fake_alloc_device(BYTES);
    if (!strcmp(what, "exec")) {
        cuMemcpyHtoD_v2(device, host, 7);
        execl(arguments[0], arguments[0], "after exec", (char *)NULL);
    }
    if (!strcmp(what, "after exec")) {
        for (int at = 0; at < 5; at++) {
            cuMemcpyHtoD_v2(device, host, 64);
        }
    }
    if (!strcmp(what, "batch")) {
        batch();
    } else if (!strcmp(what, "names")) {
        names();
    } else if (!strcmp(what, "blocks")) {
        blocks();
    } else if (!strcmp(what, "small stack")) {
        small_stack();
    } else if (!strcmp(what, "over")) {
        over();
    } else if (!strcmp(what, "constructor")) {
        constructor();
    } else if (!strcmp(what, "exit")) {
        cuMemcpyDtoH_v2(host, device, 100);
        return 0;
    }
    if (collect) {
        collect();
    }
    _exit(0);
}
