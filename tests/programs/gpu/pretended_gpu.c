/* CUDA's driver with GPUs that are not there: memory that other processes can open, and streams that are threads, so that what is not
 * waited for is late. The environment says what to pretend:
 *
 *   PRETEND_GPUS=N     GPUs (default: 4); with 0, cuInit fails as where there is none
 *   PRETEND_APART=1    the memory of GPUs has addresses at which the processor finds nothing, as it is for an MPI without GPUs
 *   PRETEND_BYTES=N    memory of a GPU (default: 1 GiB)
 *   PRETEND_LATE_US=N  how late each work of a stream is done
 *   PRETEND_WRONG=1    copies between GPUs of more than 100 bytes change the last one
 *   PRETEND_LOG=FILE   a line there for each process that loads the driver, for each GPU that it takes, and for each memory that it opens
 */
#define _GNU_SOURCE
#include "pretended_gpu.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_HANDLE = 400, NOT_READY = 600 };
enum { OF_HOST = 1, OF_DEVICE = 2 };
enum { MOST = 256, GPUS = 4 };
enum { GIBIBYTE = 1 << 30 };

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static void note(const char *what, int value) {
    const char *file = getenv("PRETEND_LOG");
    int log = file ? open(file, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
    if (log >= 0) {
        dprintf(log, "%s %d\n", what, value);
        close(log);
    }
}

__attribute__((constructor)) static void load(void) { note("loaded", getpid()); }

/* ---- Memory ---- */

struct range {
    uintptr_t begin, end;
    /* Where the processor finds it. */
    char *bytes;
    int file, type, is_managed, is_imported;
};
static struct range ranges[MOST];
static size_t taken;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int is_initialised, device = -1;

struct handle { int process, file; size_t bytes; };

static struct range *find(uintptr_t address) {
    for (int at = 0; at < MOST; at++) {
        if (ranges[at].begin && ranges[at].begin <= address && address < ranges[at].end) {
            return &ranges[at];
        }
    }
    return NULL;
}

void *pretended_bytes(const void *address, size_t bytes) {
    pthread_mutex_lock(&lock);
    struct range *range = find((uintptr_t)address);
    int is_in = range && range->type == OF_DEVICE && (uintptr_t)address + bytes <= range->end;
    void *found = is_in ? range->bytes + ((uintptr_t)address - range->begin) : NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Maps a file as memory of the host, or of a GPU. */
static int map(struct range **made, int file, size_t bytes, int type, int is_managed) {
    char *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) {
        return OUT_OF_MEMORY;
    }
    char *address = shared;
    if (type == OF_DEVICE && !is_managed && number("PRETEND_APART", 0)) {
        address = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    pthread_mutex_lock(&lock);
    for (int at = 0; at < MOST; at++) {
        if (!ranges[at].begin) {
            uintptr_t begin = (uintptr_t)address;
            ranges[at] = (struct range){begin, begin + bytes, shared, file, type, is_managed, 0};
            *made = &ranges[at];
            pthread_mutex_unlock(&lock);
            return SUCCESS;
        }
    }
    pthread_mutex_unlock(&lock);
    return OUT_OF_MEMORY;
}

static int allocate(uintptr_t *address, size_t bytes, int type, int is_managed) {
    if (device < 0) {
        return NOT_INITIALIZED;
    }
    size_t most = number("PRETEND_BYTES", GIBIBYTE);
    if (type == OF_DEVICE && (bytes > most || taken > most - bytes)) {
        return OUT_OF_MEMORY;
    }
    int file = memfd_create("pretended", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, bytes)) {
        return OUT_OF_MEMORY;
    }
    struct range *range;
    int code = map(&range, file, bytes, type, is_managed);
    if (code == SUCCESS) {
        *address = range->begin;
        taken += type == OF_DEVICE ? bytes : 0;
        /* Nothing is in it that anybody may rely on. */
        memset(range->bytes, 0xa5, bytes);
    }
    return code;
}

static int release(uintptr_t address, int is_imported) {
    pthread_mutex_lock(&lock);
    struct range *range = find(address);
    if (!range || range->begin != address || range->is_imported != is_imported) {
        pthread_mutex_unlock(&lock);
        return INVALID_VALUE;
    }
    size_t bytes = range->end - range->begin;
    munmap(range->bytes, bytes);
    if ((char *)range->begin != range->bytes) {
        munmap((void *)range->begin, bytes);
    }
    close(range->file);
    taken -= range->type == OF_DEVICE && !is_imported ? bytes : 0;
    *range = (struct range){0};
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int cuMemAlloc_v2(uintptr_t *address, size_t bytes) { return allocate(address, bytes, OF_DEVICE, 0); }
int cuMemAllocManaged(uintptr_t *address, size_t bytes, unsigned flags) {
    return flags == 1 ? allocate(address, bytes, OF_DEVICE, 1) : INVALID_VALUE;
}
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    return flags ? INVALID_VALUE : allocate((uintptr_t *)address, bytes, OF_HOST, 0);
}
int cuMemFree_v2(uintptr_t address) { return release(address, 0); }
int cuMemFreeHost(void *address) { return release((uintptr_t)address, 0); }

int cuMemGetInfo_v2(size_t *left, size_t *all) {
    *all = number("PRETEND_BYTES", GIBIBYTE);
    *left = *all - taken;
    return SUCCESS;
}

int cuIpcGetMemHandle(void *place, uintptr_t address) {
    struct range *range = find(address);
    if (!range || range->begin != address || range->is_imported || range->type != OF_DEVICE || range->is_managed) {
        return INVALID_VALUE;
    }
    struct handle handle = {getpid(), range->file, range->end - range->begin};
    memset(place, 0, 64);
    memcpy(place, &handle, sizeof handle);
    return SUCCESS;
}

struct opaque { char bytes[64]; };
int cuIpcOpenMemHandle_v2(uintptr_t *address, struct opaque opaque, unsigned flags) {
    struct handle handle;
    memcpy(&handle, &opaque, sizeof handle);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.process, handle.file);
    /* A process has no handle of its own memory to open. */
    int file = handle.process == getpid() || flags != 1 ? -1 : open(path, O_RDWR | O_CLOEXEC);
    struct range *range;
    if (file < 0 || map(&range, file, handle.bytes, OF_DEVICE, 0)) {
        return INVALID_HANDLE;
    }
    range->is_imported = 1;
    *address = range->begin;
    note("opened", handle.process);
    return SUCCESS;
}

int cuIpcCloseMemHandle(uintptr_t address) { return release(address, 1); }

int cuPointerGetAttributes(unsigned count, const int *attributes, void *const *values, uintptr_t address) {
    struct range *range = find(address);
    for (unsigned at = 0; at < count; at++) {
        switch (attributes[at]) {
        case 2: *(unsigned *)values[at] = range ? range->type : 0; break;
        case 8: *(unsigned *)values[at] = range ? range->is_managed : 0; break;
        default: return INVALID_VALUE;
        }
    }
    return SUCCESS;
}

/* ---- Streams ---- */

struct work {
    void (*act)(void *);
    void *argument;
    struct work *next;
};
struct stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct work *first;
    int is_busy, is_ending;
};

static void *run(void *place) {
    struct stream *stream = place;
    long late_us = number("PRETEND_LATE_US", 0);
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (!stream->first && !stream->is_ending) {
            pthread_cond_wait(&stream->changed, &stream->lock);
        }
        struct work *work = stream->first;
        if (!work) {
            break;
        }
        stream->first = work->next;
        stream->is_busy = 1;
        pthread_mutex_unlock(&stream->lock);
        if (late_us) {
            usleep(late_us);
        }
        work->act(work->argument);
        free(work->argument);
        free(work);
        pthread_mutex_lock(&stream->lock);
        stream->is_busy = 0;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

int pretended_enqueue(void *place, void (*act)(void *), void *argument) {
    struct stream *stream = place;
    struct work *work = malloc(sizeof *work);
    *work = (struct work){act, argument, NULL};
    pthread_mutex_lock(&stream->lock);
    struct work **last = &stream->first;
    while (*last) {
        last = &(*last)->next;
    }
    *last = work;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return SUCCESS;
}

int cuStreamCreate(struct stream **made, unsigned flags) {
    /* A stream that waits for the default one would wait for the copies of an MPI. */
    if (device < 0 || flags != 1) {
        return INVALID_VALUE;
    }
    struct stream *stream = calloc(1, sizeof *stream);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    *made = stream;
    return pthread_create(&stream->thread, NULL, run, stream) ? OUT_OF_MEMORY : SUCCESS;
}

int cuStreamQuery(struct stream *stream) {
    pthread_mutex_lock(&stream->lock);
    int code = stream->first || stream->is_busy ? NOT_READY : SUCCESS;
    pthread_mutex_unlock(&stream->lock);
    return code;
}

int cuStreamSynchronize(struct stream *stream) {
    pthread_mutex_lock(&stream->lock);
    while (stream->first || stream->is_busy) {
        pthread_cond_wait(&stream->changed, &stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
    return SUCCESS;
}

int cuStreamDestroy_v2(struct stream *stream) {
    pthread_mutex_lock(&stream->lock);
    stream->is_ending = 1;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    free(stream);
    return SUCCESS;
}

/* ---- Copies ---- */

struct copy { char *to, *from; size_t bytes; };

static void copy_now(void *place) {
    struct copy *copy = place;
    memcpy(copy->to, copy->from, copy->bytes);
    if (copy->bytes > 100 && number("PRETEND_WRONG", 0)) {
        copy->to[copy->bytes - 1] ^= 1;
    }
}

int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, struct stream *stream) {
    struct copy *copy = malloc(sizeof *copy);
    *copy = (struct copy){pretended_bytes((void *)to, bytes), pretended_bytes((void *)from, bytes), bytes};
    return copy->to && copy->from ? pretended_enqueue(stream, copy_now, copy) : INVALID_VALUE;
}

int cuMemcpyHtoD_v2(uintptr_t to, const void *from, size_t bytes) {
    void *place = pretended_bytes((void *)to, bytes);
    return place && !find((uintptr_t)from) ? (memcpy(place, from, bytes), SUCCESS) : INVALID_VALUE;
}

int cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t bytes) {
    void *place = pretended_bytes((void *)from, bytes);
    return place && !find((uintptr_t)to) ? (memcpy(to, place, bytes), SUCCESS) : INVALID_VALUE;
}

int cuMemsetD8_v2(uintptr_t to, unsigned char value, size_t bytes) {
    struct range *range = find(to);
    if (!range || to + bytes > range->end) {
        return INVALID_VALUE;
    }
    memset(range->bytes + (to - range->begin), value, bytes);
    return SUCCESS;
}

/* ---- GPUs ---- */

int cuInit(unsigned flags) {
    if (flags) {
        return INVALID_VALUE;
    }
    is_initialised = 1;
    return number("PRETEND_GPUS", GPUS) ? SUCCESS : NO_DEVICE;
}

int cuDeviceGetCount(int *count) {
    *count = number("PRETEND_GPUS", GPUS);
    return is_initialised ? SUCCESS : NOT_INITIALIZED;
}

int cuDeviceGet(int *found, int ordinal) {
    *found = ordinal;
    return is_initialised && ordinal >= 0 && ordinal < number("PRETEND_GPUS", GPUS) ? SUCCESS : INVALID_VALUE;
}

static int contexts[GPUS];
int cuDevicePrimaryCtxRetain(void **context, int of) {
    *context = &contexts[of];
    return SUCCESS;
}

int cuCtxSetCurrent(void *context) {
    device = (int)((int *)context - contexts);
    note("takes", device);
    return SUCCESS;
}

int pretended_device(void) { return device; }

int cuCtxSynchronize(void) { return device < 0 ? NOT_INITIALIZED : SUCCESS; }

int cuGetErrorString(int code, const char **text) {
    *text = code == NO_DEVICE ? "no CUDA-capable device is detected" : code == OUT_OF_MEMORY ? "out of memory" : "pretended";
    return SUCCESS;
}
