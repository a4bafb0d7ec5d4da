/* See copies.h. FAKE_CUPTI=taken: another tool has subscribed. */
#define _GNU_SOURCE
#include "copies.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- CUPTI ----------------------------------------------------------------------------------------------------------- */

struct callback_data {
    uint32_t site;
    const char *name;
    const void *parameters;
    const int *result;
    const char *symbol;
    void *context;
    uint32_t context_uid;
    uint64_t *correlation_data;
    uint32_t correlation_id;
};

typedef void (*callback_function)(void *, uint32_t, uint32_t, const struct callback_data *);

static callback_function callback;
static char is_enabled[1024];

int cuptiSubscribe(void **subscriber, callback_function function, void *data) {
    const char *how = getenv("FAKE_CUPTI");
    (void)data;
    if (how && !strcmp(how, "taken")) {
        return 39;
    }
    *subscriber = is_enabled;
    callback = function;
    return 0;
}

int cuptiEnableCallback(uint32_t on, void *subscriber, uint32_t domain, uint32_t id) {
    if (subscriber != is_enabled || domain != 1 || id >= sizeof is_enabled) {
        return 1;
    }
    is_enabled[id] = (char)on;
    return 0;
}

int cuptiUnsubscribe(void *subscriber) {
    callback = NULL;
    return subscriber == is_enabled ? 0 : 1;
}

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static volatile int is_slow;
static __thread int is_locked;

void fake_report_locked(void) { is_locked = is_slow = 1; }

static void tell(uint32_t id, uint32_t site, const void *parameters, const int *result) {
    static uint64_t data;
    struct callback_data about = {site, "?", parameters, site ? result : NULL, NULL, &data, 1, &data, 1};
    if (is_locked) {
        pthread_mutex_lock(&lock);
    }
    if (callback && is_enabled[id]) {
        callback(NULL, 1, id, &about);
    }
    if (is_locked) {
        pthread_mutex_unlock(&lock);
    }
}

/* A call, with its parameters as the driver has them. */
#define CALL(id, body, ...)                    \
    uint64_t parameters[] = {__VA_ARGS__};     \
    int result = 0;                            \
    tell(id, 0, parameters, NULL);             \
    body;                                      \
    tell(id, 1, parameters, &result);          \
    return result
#define WORD(pointer) ((uint64_t)(uintptr_t)(pointer))

/* --- memory ---------------------------------------------------------------------------------------------------------- */

enum { HOST = 1, DEVICE = 2, MANAGED = 3 };

static struct memory {
    uint64_t begin, bytes;
    int kind, device;
} memory[64];
static unsigned count;
static int current;

static void *alloc(size_t bytes, int kind) {
    void *address = calloc(1, bytes);
    memory[count++] = (struct memory){WORD(address), bytes, kind, current};
    return address;
}

void fake_use_device(int device) { current = device; }
void *fake_alloc_device(size_t bytes) { return alloc(bytes, DEVICE); }
void *fake_alloc_pinned(size_t bytes) { return alloc(bytes, HOST); }
void *fake_alloc_managed(size_t bytes) { return alloc(bytes, MANAGED); }

int cuPointerGetAttributes(unsigned number, const int *attributes, void **to, uint64_t address) {
    const struct memory *found = NULL;
    for (unsigned at = 0; at < count; at++) {
        if (address >= memory[at].begin && address < memory[at].begin + memory[at].bytes) {
            found = &memory[at];
        }
    }
    for (unsigned at = 0; at < number; at++) {
        switch (attributes[at]) {
        case 2: *(unsigned *)to[at] = !found ? 0 : found->kind == MANAGED ? 2 : (unsigned)found->kind; break;
        case 8: *(unsigned *)to[at] = found && found->kind == MANAGED; break;
        case 9: *(int *)to[at] = found ? found->device : -2; break;
        default: return 1;
        }
    }
    return 0;
}

static struct array {
    unsigned format, channels;
} arrays[8];
static unsigned array_count;

void *fake_alloc_array(unsigned format, unsigned channels) {
    arrays[array_count] = (struct array){format, channels};
    return &arrays[array_count++];
}

struct descriptor {
    size_t width, height, depth;
    unsigned format, channels, flags;
};

int cuArray3DGetDescriptor_v2(struct descriptor *descriptor, const struct array *array) {
    if (!array->format) {
        return 1;
    }
    *descriptor = (struct descriptor){64, 64, 64, array->format, array->channels, 0};
    return 0;
}

/* --- the driver ------------------------------------------------------------------------------------------------------ */

int cuInit(unsigned flags) {
    static int is_done;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    if (flags || is_done || !path) {
        return flags ? 1 : 0;
    }
    is_done = 1;
    void *library = dlopen(path, RTLD_NOW);
    int (*initialize)(void) = NULL;
    if (library) {
        *(void **)&initialize = dlsym(library, "InitializeInjection");
    }
    if (!initialize || !initialize()) {
        fprintf(stderr, "fake driver: %s is no injection\n", path);
    }
    return 0;
}

int cuDeviceGetCount(int *devices) {
    *devices = 2;
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char uuid[16], int device) {
    usleep(is_slow ? 200000 : 0);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    memset(uuid, 0, 16);
    uuid[15] = (unsigned char)device;
    return 0;
}

int cuCtxGetDevice(int *device) {
    *device = current;
    return 0;
}

static void *captured;

int cuStreamIsCapturing(void *stream, int *status) {
    *status = captured && stream == captured;
    return 0;
}

int cuStreamBeginCapture_v2(void *stream, int mode) {
    CALL(539, captured = stream, WORD(stream), (uint64_t)mode);
}

int cuStreamEndCapture(void *stream, void **graph) {
    CALL(497, captured = NULL; *graph = stream, WORD(stream), WORD(graph));
}

static int copy(void *to, const void *from, size_t bytes, const void *stream) {
    if (!bytes) {
        return 1;
    }
    if (!captured || stream != captured) {
        memmove(to, from, bytes);
    }
    return 0;
}

int cuMemcpy(void *to, const void *from, size_t bytes) {
    CALL(305, result = copy(to, from, bytes, NULL), WORD(to), WORD(from), bytes);
}

int cuMemcpyAsync(void *to, const void *from, size_t bytes, void *stream) {
    CALL(306, result = copy(to, from, bytes, stream), WORD(to), WORD(from), bytes, WORD(stream));
}

int cuMemcpyAsync_ptsz(void *to, const void *from, size_t bytes, void *stream) {
    CALL(418, result = copy(to, from, bytes, stream), WORD(to), WORD(from), bytes, WORD(stream));
}

int cuMemcpyHtoD_v2(void *to, const void *from, size_t bytes) {
    CALL(276, result = copy(to, from, bytes, NULL), WORD(to), WORD(from), bytes);
}

int cuMemcpyDtoH_v2(void *to, const void *from, size_t bytes) {
    CALL(278, result = copy(to, from, bytes, NULL), WORD(to), WORD(from), bytes);
}

int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *stream) {
    CALL(279, result = copy(to, from, bytes, stream), WORD(to), WORD(from), bytes, WORD(stream));
}

int cuMemcpyPeerAsync(void *to, void *to_context, const void *from, void *from_context, size_t bytes, void *stream) {
    CALL(319, result = copy(to, from, bytes, stream), WORD(to), WORD(to_context), WORD(from), WORD(from_context), bytes,
         WORD(stream));
}

int cuMemcpyPeer(void *to, void *to_context, const void *from, void *from_context, size_t bytes) {
    CALL(318, result = cuMemcpyPeerAsync(to, to_context, from, from_context, bytes, NULL), WORD(to), WORD(to_context),
         WORD(from), WORD(from_context), bytes);
}

int cuMemcpyHtoA_v2(void *array, size_t offset, const void *from, size_t bytes) {
    CALL(292, result = bytes ? 0 : 1, WORD(array), offset, WORD(from), bytes);
}

int cuMemcpy2D_v2(const struct fake_rectangle *copied) {
    CALL(287, result = copied->width ? 0 : 1, WORD(copied));
}

int cuMemcpyBatchAsync_v2(void **to, void **from, size_t *sizes, size_t number, void *attributes, size_t *indices,
                          size_t attribute_count, void *stream) {
    CALL(796, for (size_t at = 0; at < number; at++) result |= copy(to[at], from[at], sizes[at], stream), WORD(to), WORD(from),
         WORD(sizes), number, WORD(attributes), WORD(indices), attribute_count, WORD(stream));
}

int cuMemcpy3DBatchAsync_v2(size_t number, struct fake_block *blocks, unsigned long long flags, void *stream) {
    CALL(798, result = number && blocks->width ? 0 : 1, number, WORD(blocks), flags, WORD(stream));
}

int cuMemsetD32_v2(void *to, unsigned value, size_t number) {
    CALL(251, for (size_t at = 0; at < number; at++) ((unsigned *)to)[at] = value, WORD(to), value, number);
}

int cuLaunchKernel(void *function, void *stream) {
    CALL(307, , WORD(function), 1, 1, 1, 0, WORD(stream), 0, 0);
}

int cuGraphLaunch(void *graph, void *stream) {
    CALL(514, , WORD(graph), WORD(stream));
}
