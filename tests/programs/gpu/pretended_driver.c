/* As much of CUDA's driver as knows the kinds of memory, and devices: the program says which range is of which kind, and which
 * devices have contexts. */
#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };
static struct range {
    uintptr_t begin, end;
    unsigned memory_type, is_managed;
} ranges[MOST];
static int is_initialised, is_constructed;

__attribute__((constructor)) static void construct(void) { is_constructed = 1; }

int cuInit(unsigned flags) {
    is_initialised = 1;
    return (int)flags;
}

/* From now on the memory is of this kind; of type 0 the driver does not know it. */
void pretend(void *begin, size_t bytes, unsigned memory_type, unsigned is_managed) {
    for (int at = 0; at < MOST; at++) {
        if (ranges[at].begin == (uintptr_t)begin || !ranges[at].begin) {
            ranges[at] = (struct range){(uintptr_t)begin, (uintptr_t)begin + bytes, memory_type, is_managed};
            return;
        }
    }
}

int cuPointerGetAttributes(unsigned count, const int *attributes, void *const *values, uint64_t address) {
    if (!is_constructed) {
        fprintf(stderr, "the driver is called before its constructor\n");
        abort();
    }
    if (!is_initialised) {
        return 3;
    }
    struct range found = {0};
    for (int at = 0; at < MOST; at++) {
        if (ranges[at].begin <= address && address < ranges[at].end) {
            found = ranges[at];
        }
    }
    for (unsigned at = 0; at < count; at++) {
        switch (attributes[at]) {
        case 2: *(unsigned *)values[at] = found.memory_type; break;
        case 8: *(unsigned *)values[at] = found.is_managed; break;
        default: return 1;
        }
    }
    return 0;
}

/* Three devices: two GPUs, and a MIG instance of a third. PRETENDED_PCI has their PCI addresses with a comma between them, of
 * which the driver writes letters large; PRETENDED_VISIBLE, as `10`, the numbers of those that the process sees, in its order. */
enum { DEVICES = 3, NOT_INITIALISED = 3, NO_CONTEXT = 201 };
static int has_primary[DEVICES];
static int current = -1;

static int visible(int number) {
    const char *order = getenv("PRETENDED_VISIBLE");
    return !order ? number : number < (int)strlen(order) ? order[number] - '0' : -1;
}

/* The primary context of a device is made, as CUDA's runtime does, and is the current one if so wanted. */
void pretend_context(int device, int is_current) {
    if (visible(device) < 0) {
        return;
    }
    has_primary[visible(device)] = 1;
    if (is_current) {
        current = device;
    }
}

int cuDeviceGetCount(int *count) {
    const char *order = getenv("PRETENDED_VISIBLE");
    *count = order ? (int)strlen(order) : DEVICES;
    return is_initialised ? 0 : NOT_INITIALISED;
}

int cuDeviceGet(int *device, int number) {
    *device = number;
    return is_initialised ? 0 : NOT_INITIALISED;
}

static void fill(unsigned char uuid[16], int first) {
    for (int at = 0; at < 16; at++) {
        uuid[at] = (unsigned char)(first + at);
    }
}

int cuDeviceGetUuid(unsigned char uuid[16], int device) {
    fill(uuid, 0x10 * (visible(device) + 1));
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char uuid[16], int device) {
    fill(uuid, visible(device) == 2 ? 0xa0 : 0x10 * (visible(device) + 1));
    return 0;
}

int cuDeviceGetPCIBusId(char *text, int length, int device) {
    const char *addresses = getenv("PRETENDED_PCI");
    for (int skipped = 0; addresses && skipped < visible(device); skipped++) {
        addresses = strchr(addresses, ',');
        addresses = addresses ? addresses + 1 : NULL;
    }
    if (!addresses) {
        return 1;
    }
    int at = 0;
    for (; at < length - 1 && addresses[at] && addresses[at] != ','; at++) {
        text[at] = (char)toupper(addresses[at]);
    }
    text[at] = 0;
    return 0;
}

int cuDeviceGetName(char *text, int length, int device) {
    snprintf(text, (size_t)length, visible(device) == 2 ? "Pretended GPU MIG 1g" : "Pretended GPU");
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    *bytes = (size_t)1009 * (size_t)(visible(device) + 1) << 20;
    return 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active) {
    *flags = 0;
    *is_active = has_primary[visible(device)];
    return 0;
}

int cuCtxGetCurrent(void **context) {
    *context = current < 0 ? NULL : &current;
    return is_initialised ? 0 : NOT_INITIALISED;
}

static int pushed_device(void);

int cuCtxGetDevice(int *device) {
    *device = pushed_device() < 0 ? current : pushed_device();
    return *device < 0 ? NO_CONTEXT : 0;
}

/* Only the first two reach each other, with atomics from the one to the other alone. */
int cuDeviceGetP2PAttribute(int *value, int attribute, int from, int to) {
    int one = visible(from), other = visible(to), is_linked = one < 2 && other < 2;
    switch (attribute) {
    case 1: *value = is_linked ? 1 + one : 7; return 0;
    case 2: *value = is_linked; return 0;
    case 3: *value = is_linked && one == 0; return 0;
    default: return 1;
    }
}

/* Streams, whose work takes a time of its own, and events in them. What is recorded while the GPU is busy is not done until it is not.
 * Misuse is what real CUDA forbids: events of another context, and functions that end the capture of another thread. */
enum { SUCCESS = 0, INVALID_CONTEXT = 201, NOT_SUPPORTED = 801, INVALID_HANDLE = 400, NOT_READY = 600, LAUNCH_FAILED = 719, CAPTURE_UNSUPPORTED = 900, GLOBAL = 0, MOST_CONTEXTS = 8 };
struct stream { int device, is_capturing, is_green; double ms; };
struct event { int device, turn, resets; double ms; };
static int contexts[DEVICES], pushed[MOST_CONTEXTS], depth, is_busy, has_failed, turn, is_captured_elsewhere, live_events, misuses, resets;
static _Thread_local int mode = GLOBAL;
static struct stream defaults[DEVICES];

static int pushed_device(void) { return depth ? pushed[depth - 1] : -1; }
static int device_now(void) { return depth ? pushed[depth - 1] : current; }
static int context_device(void *context) { return context == &current ? current : (int)((int *)context - contexts); }
static struct stream *stream_of(void *stream) { return stream ? stream : device_now() < 0 ? NULL : &defaults[device_now()]; }

/* A new stream of a device. */
void *pretend_stream(int device) {
    struct stream *stream = calloc(1, sizeof *stream);
    stream->device = device;
    return stream;
}

/* Work of a stream; of the default one on the device. */
void pretend_work(void *stream, int device, double ms) { (stream ? (struct stream *)stream : &defaults[device])->ms += ms; }

void pretend_capture(void *stream, int is_on) { ((struct stream *)stream)->is_capturing = is_on; }

/* Another thread captures, in the mode in which nobody may call certain functions. */
void pretend_capture_elsewhere(int is_on) { is_captured_elsewhere = is_on; }

void pretend_busy(int is_on) {
    is_busy = is_on;
    turn += is_on;
}

/* Work on the GPU fails, which the driver says of the events behind it. */
void pretend_failure(int is_on) { has_failed = is_on; }

/* All devices are reset: no context and no event is there any more. */
void pretend_reset(void) {
    resets++;
    live_events = 0;
}

int pretend_live_events(void) { return live_events; }
int pretend_misuses(void) { return misuses + (depth != 0) + (mode != GLOBAL); }

static int misused(int is_misused, int code) {
    misuses += is_misused;
    return is_misused ? code : SUCCESS;
}

static int gone(struct event *event) { return misused(event->resets != resets, INVALID_HANDLE); }

static int forbidden(void) { return misused(is_captured_elsewhere && mode == GLOBAL, CAPTURE_UNSUPPORTED); }

/* The stream is of a green context, of which CUDA before 12.5 does not say the context. */
void pretend_green(void *stream, int is_green) { ((struct stream *)stream)->is_green = is_green; }

int cuStreamGetCtx(void *stream, void **context) {
    struct stream *it = stream_of(stream);
    if (it && it->is_green) {
        return NOT_SUPPORTED;
    }
    *context = !it ? NULL : stream ? &contexts[it->device] : &contexts[device_now()];
    return it ? SUCCESS : INVALID_CONTEXT;
}

#ifndef BEFORE_12_5
/* Of a green context it gives that, and the primary context of its device. */
int cuStreamGetCtx_v2(void *stream, void **context, void **green) {
    struct stream *it = stream_of(stream);
    *green = it && it->is_green ? it : NULL;
    *context = !it ? NULL : stream ? &contexts[it->device] : &contexts[device_now()];
    return it ? SUCCESS : INVALID_CONTEXT;
}
#endif

int cuStreamIsCapturing(void *stream, int *status) {
    struct stream *it = stream_of(stream);
    *status = it && it->is_capturing;
    return SUCCESS;
}

int cuCtxPushCurrent_v2(void *context) {
    if (depth == MOST_CONTEXTS) {
        return INVALID_CONTEXT;
    }
    pushed[depth++] = context_device(context);
    return SUCCESS;
}

int cuCtxPopCurrent_v2(void **context) {
    *context = &contexts[pushed[depth - 1]];
    depth--;
    return SUCCESS;
}

int cuThreadExchangeStreamCaptureMode(int *other) {
    int before = mode;
    mode = *other, *other = before;
    return SUCCESS;
}

int cuEventCreate(struct event **event, unsigned flags) {
    *event = calloc(1, sizeof **event);
    (*event)->device = device_now(), (*event)->resets = resets;
    live_events++;
    return flags ? INVALID_HANDLE : SUCCESS;
}

int cuEventRecord(struct event *event, void *stream) {
    struct stream *it = stream_of(stream);
    int of = stream ? it->device : device_now();
    event->ms = it->ms, event->turn = is_busy ? turn : 0;
    return misused(event->device != of || it->is_capturing, INVALID_HANDLE);
}

int cuEventQuery(struct event *event) {
    int code = forbidden() + gone(event);
    return code ? code : has_failed ? LAUNCH_FAILED : is_busy && event->turn == turn ? NOT_READY : SUCCESS;
}

int cuEventElapsedTime(float *ms, struct event *begin, struct event *end) {
    *ms = (float)(end->ms - begin->ms);
    return forbidden();
}

int cuCtxGetId(void *context, unsigned long long *id) {
    *id = 1 + (unsigned long long)context_device(context);
    return resets ? INVALID_CONTEXT : SUCCESS;
}

int cuEventDestroy_v2(struct event *event) {
    gone(event);
    free(event);
    live_events--;
    return SUCCESS;
}
