/* Streams, and kernels in them. */
#include "parts.h"

#include "../../../device/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { WRITE, CLEAR, KERNEL };

struct operation {
    enum kind kind;
    void *target;
    void *bytes;
    size_t length;
    /* Of a kernel. */
    uint64_t module;
    char name[64];
    const void *userdata;
    struct fake_access accesses[8];
    size_t count;
    /* With NVBit, what is called before each access, if anything is. */
    struct fake_call calls[8];
    int has_call[8];
    int has_calls;
    /* With the Sanitizer, what of a kernel of a graph was patched when that was made ready; else what is now. */
    int is_of_graph;
    uint32_t patched;
    struct operation *next;
};

int in_own_stream;

struct launch_data {
    void *context, *stream, *handle, *module, *function;
    const char *name;
    uint32_t dimensions[9];
    uint64_t grid;
    void *launch;
    int device;
    void *api[3];
};

struct launch_parameters {
    void *function;
    unsigned grid[3], block[3], shared;
    void *stream, **parameters, **extra;
};

static struct { uint64_t key, context; struct operation *first, **last; } streams[MOST];
static uint64_t node_value, node_launch;
static int node_has_value, launches_nodes;

/* A kernel of a graph: as it was put there, with the calls that it had then. */
struct node {
    struct operation kernel;
    uint64_t context;
};

static struct { uint64_t stream; int is_open; struct node nodes[8]; size_t count; } captured;

static int captured_any(void) { return captured.is_open; }
static unsigned patched_launches;

void may_be_called(void) {
    if (launches_nodes) {
        fatal("the driver is called while it launches a graph");
    }
}

static struct operation *enqueue(uint64_t stream, enum kind kind) {
    struct operation *operation = calloc(1, sizeof *operation);
    size_t at = 0;
    if (is_captured(stream)) {
        fatal("a stream that is captured is not left alone");
    }
    while (at < MOST && streams[at].last && streams[at].key != stream) {
        at++;
    }
    if (at == MOST) {
        fatal("too many streams");
    }
    if (!streams[at].last) {
        streams[at].key = stream;
        streams[at].last = &streams[at].first;
    }
    operation->kind = kind;
    *streams[at].last = operation;
    streams[at].last = &operation->next;
    return operation;
}

uint64_t context_of_stream(uint64_t stream) {
    for (size_t at = 0; at < sizeof contexts / sizeof *contexts; at++) {
        if (contexts[at].context && stream == null_stream(contexts[at].context)) {
            return contexts[at].context;
        }
    }
    for (size_t at = 0; at < MOST && streams[at].last; at++) {
        if (streams[at].key == stream) {
            return streams[at].context;
        }
    }
    return 0;
}

/* Something is done in a stream of a context. */
static void used(uint64_t context, uint64_t stream) {
    size_t at = 0;
    while (at < MOST && streams[at].last && streams[at].key != stream) {
        at++;
    }
    if (at == MOST) {
        fatal("too many streams");
    }
    streams[at].key = stream;
    streams[at].context = context;
    if (!streams[at].last) {
        streams[at].last = &streams[at].first;
    }
}

/* Patches of a module. */
static uint32_t patched_now(uint64_t module) {
    return modules[module % MOST].is_patched ? modules[module % MOST].instructions : 0;
}

/* An access with what NVBit's user put before it. */
static void run_call(const struct fake_call *call, const struct fake_access *access) {
    const struct mp_launch *launch = (const struct mp_launch *)(uintptr_t)call->launch;
    uint64_t lane[32];
    for (uint32_t warp = 0; warp < access->warps; warp++) {
        if (call->is_bulk) {
            mp_bulk_warp(launch, call->pc, access->address, access->bytes / 16 * 16, call->kind);
            continue;
        }
        for (uint32_t at = 0; at < 32; at++) {
            lane[at] = access->address + (uint64_t)(warp * 32 + at) * access->bytes;
        }
        mp_access_warp(launch, call->pc, lane, access->lanes, call->bytes, call->kind, mp_mix(warp ^ call->pc));
    }
}

static void run_access(const struct operation *kernel, const struct fake_access *access) {
    const struct mp_launch *launch = kernel->userdata;
    uint32_t patched = kernel->is_of_graph ? kernel->patched : patched_now(kernel->module);
    uint64_t bytes, pc = code(kernel->module, kernel->name, &bytes) + access->offset, lane[32];
    for (uint32_t warp = 0; warp < access->warps; warp++) {
        if (access->flags & FAKE_BULK) {
            if (patched >> (access->flags & FAKE_STORE ? 2 : 1) & 1) {
                mp_bulk_warp(launch, pc, access->address, access->bytes, access->flags & FAKE_STORE ? MP_STORE : MP_LOAD);
            }
            continue;
        }
        for (uint32_t at = 0; at < 32; at++) {
            lane[at] = access->address + (uint64_t)(warp * 32 + at) * access->bytes;
        }
        if (patched & 1 && !(access->flags & MP_PREFETCHES)) {
            mp_access_warp(launch, pc, lane, access->lanes, access->bytes, mp_kind(access->flags), mp_mix(warp ^ pc));
        }
    }
}

/* Runs what waits first in a stream. */
static void run_first(size_t at) {
    struct operation *operation = streams[at].first;
    streams[at].first = operation->next;
    if (!operation->next) {
        streams[at].last = &streams[at].first;
    }
    switch (operation->kind) {
    case WRITE:
        memcpy(operation->target, operation->bytes, operation->length);
        break;
    case CLEAR:
        memset(operation->target, 0, operation->length);
        break;
    case KERNEL:
        patched_launches += hooks ? operation->has_calls : modules[operation->module % MOST].is_patched;
        for (size_t access = 0; access < operation->count; access++) {
            if (!hooks) {
                run_access(operation, &operation->accesses[access]);
            } else if (operation->has_call[access]) {
                run_call(&operation->calls[access], &operation->accesses[access]);
            }
        }
    }
    free(operation->bytes);
    free(operation);
}

void drain(uint64_t stream) {
    int is_all = 0;
    for (size_t at = 0; at < sizeof contexts / sizeof *contexts; at++) {
        is_all |= contexts[at].context && stream == null_stream(contexts[at].context);
    }
    if (is_captured(stream) || (is_all && captured_any())) {
        fatal("a stream that is captured is waited for");
    }
    for (size_t at = 0; at < MOST && streams[at].last; at++) {
        if (!is_all && streams[at].key != stream) {
            continue;
        }
        while (streams[at].first) {
            run_first(at);
        }
    }
}

int kernels_wait(uint64_t module) {
    int found = 0;
    for (size_t at = 0; at < MOST && streams[at].last; at++) {
        for (const struct operation *it = streams[at].first; it; it = it->next) {
            found |= it->kind == KERNEL && it->module == module;
        }
    }
    return found;
}

/* Which calls a launch has is settled when it is made. Those of a graph have what their functions have then: NVBit
 * changes the code in its place. */
static void find_calls(struct operation *operation, void *function) {
    operation->has_calls = 0;
    for (size_t at = 0; hooks && at < operation->count; at++) {
        operation->has_call[at] = hooks->call_at(function, operation->accesses[at].offset, &operation->calls[at]);
        operation->has_calls |= operation->has_call[at];
    }
}

static void prepare(struct operation *operation, const struct launch_data *launch, const void *userdata,
                    const struct fake_access *accesses, size_t count) {
    operation->kind = KERNEL;
    operation->bytes = NULL;
    operation->module = (uintptr_t)launch->module;
    operation->userdata = userdata;
    operation->count = count;
    operation->is_of_graph = 0;
    snprintf(operation->name, sizeof operation->name, "%s", launch->name);
    memcpy(operation->accesses, accesses, count * sizeof *accesses);
    find_calls(operation, launch->function);
}

static void fill(struct launch_data *data, uint64_t context, uint64_t stream, uint64_t module, const char *kernel) {
    data->context = as_handle(context);
    /* Stream 1 is CU_STREAM_LEGACY, the NULL stream. */
    data->stream = stream == null_stream(context) ? NULL : as_handle(stream);
    data->handle = as_handle(stream);
    data->module = as_handle(module);
    data->function = function_of(module, kernel);
    data->name = kernel;
}


int is_captured(uint64_t stream) { return captured.is_open && captured.stream == stream; }

void fake_capture(uint64_t stream) {
    memset(&captured, 0, sizeof captured);
    captured.stream = stream;
    captured.is_open = 1;
}

void fake_capture_end(uint64_t stream) {
    captured.is_open &= captured.stream != stream;
    /* The Sanitizer reports the making of an executable graph. */
    tell(GRAPHS, 1, &captured);
    for (size_t at = 0; at < captured.count; at++) {
        struct operation *kernel = &captured.nodes[at].kernel;
        kernel->is_of_graph = 1;
        kernel->patched = patched_now(kernel->module);
    }
    tell(GRAPHS, 2, &captured);
}

static void capture(const struct operation *kernel, uint64_t context) {
    if (captured.count == 8) {
        fatal("too many kernels in a graph");
    }
    captured.nodes[captured.count].kernel = *kernel;
    captured.nodes[captured.count++].context = context;
}

void fake_launch(uint64_t context, uint64_t stream, uint64_t module, const char *kernel,
                 const struct fake_access *accesses, size_t count) {
    struct launch own = {NULL, module};
    struct launch_data data = {.launch = &own};
    used(context, stream);
    fill(&data, context, stream, module, kernel);
    struct launch_parameters call = {.function = launched_as(data.function, stream), .stream = data.handle};
    if (is_captured(stream)) {
        /* The call is made, but no kernel launched. */
        struct operation kernel;
        hooked(context, "cuLaunchKernel", &call, 0);
        prepare(&kernel, &data, NULL, accesses, count);
        capture(&kernel, context);
        hooked(context, "cuLaunchKernel", &call, 1);
        return;
    }
    in_own_stream = (uintptr_t)data.stream > 1;
    tell(LAUNCH, 1, &data);
    in_own_stream = 0;
    hooked(context, "cuLaunchKernel", &call, 0);
    prepare(enqueue(stream, KERNEL), &data, own.userdata, accesses, count);
    data.launch = NULL;
    tell(LAUNCH, 3, &data);
    hooked(context, "cuLaunchKernel", &call, 1);
}

/* A kernel of a graph runs. */
static void run_node(const struct node *node, uint64_t stream) {
    struct operation *queued;
    struct launch own = {NULL, node->kernel.module};
    struct { void *graph; uint32_t launch_id; void *node; uint32_t kind; struct launch_data launch; } data = {0};
    fill(&data.launch, node->context, stream, node->kernel.module, node->kernel.name);
    data.launch.launch = &own;
    used(node->context, stream);
    tell(GRAPHS, 4, &data);
    queued = enqueue(stream, KERNEL);
    struct operation *next = queued->next;
    *queued = node->kernel;
    queued->next = next;
    queued->userdata = own.userdata;
    if (hooks) {
        node_value = 0;
        node_has_value = 0;
        node_launch++;
        launches_nodes = 1;
        hooks->node(as_handle(node->context), data.launch.function, as_handle(stream), node_launch);
        launches_nodes = 0;
        find_calls(queued, data.launch.function);
        if (queued->has_calls && !node_has_value) {
            fatal("calls of a kernel of a graph get nothing");
        }
        for (size_t at = 0; at < queued->count; at++) {
            queued->calls[at].launch = node_value;
        }
    }
}

void fake_captured_launch(uint64_t context, uint64_t stream) {
    struct { void *graph, *stream; } call = {&captured, as_handle(stream)};
    hooked(context, "cuGraphLaunch", &call, 0);
    tell(GRAPHS, 6, &captured);
    for (size_t at = 0; at < captured.count; at++) {
        run_node(&captured.nodes[at], stream);
    }
    hooked(context, "cuGraphLaunch", &call, 1);
}

void fake_graph_launch(uint64_t context, uint64_t stream, uint64_t module, const char *kernel,
                       const struct fake_access *accesses, size_t count) {
    struct launch_data data = {0};
    struct node node = {.context = context};
    fill(&data, context, stream, module, kernel);
    /* As `cuGraphAddKernelNode_v2` has it: a function, or a kernel of a library. */
    void *as = launched_as(data.function, stream);
    struct { void *function; unsigned numbers[7]; void **parameters, **extra, *kernel, *context; } of_node = {
        .function = as == data.function ? as : NULL, .kernel = as == data.function ? NULL : as};
    struct { void *node, *graph, *dependencies; size_t count; void *parameters; } call = {.parameters = &of_node};
    struct { void *graph, *stream; } launch = {&node, as_handle(stream)};
    hooked_call(context, "cuGraphAddKernelNode_v2", &call);
    prepare(&node.kernel, &data, NULL, accesses, count);
    tell(GRAPHS, 1, &data);
    node.kernel.is_of_graph = 1;
    node.kernel.patched = patched_now(module);
    hooked(context, "cuGraphLaunch", &launch, 0);
    run_node(&node, stream);
    hooked(context, "cuGraphLaunch", &launch, 1);
}

void fake_stream_wait(uint64_t context, uint64_t stream) {
    struct { void *context, *stream, *handle; } data = {as_handle(context), NULL, as_handle(stream)};
    drain(stream);
    tell(SYNCHRONIZE, 1, &data);
    hooked_call(context, "cuStreamSynchronize", &data.handle);
}

void fake_context_wait(uint64_t context) {
    struct { void *context, *stream, *handle; } data = {as_handle(context), NULL, NULL};
    for (size_t at = 0; at < MOST && streams[at].last; at++) {
        drain(streams[at].key);
    }
    tell(SYNCHRONIZE, 2, &data);
    /* Of any context, in the later one. */
    hooked_call(contexts[0].context, "cuCtxSynchronize_v2", &data.context);
}

void fake_stream_destroy(uint64_t context, uint64_t stream) {
    static uint64_t gone = 0xdead0000;
    struct { void *context, *stream, *handle; } data = {as_handle(context), NULL, as_handle(stream)};
    struct { void *context, *green, *stream, *handle; } later = {as_handle(context), NULL, NULL, as_handle(stream)};
    tell(RESOURCE, 7, has_green_contexts() ? (void *)&later : &data);
    for (size_t at = 0; at < MOST && streams[at].last; at++) {
        if (streams[at].key == stream) {
            streams[at].key = gone++;
        }
    }
}

unsigned fake_patched_launches(void) { return patched_launches; }

void fake_set_node(uint64_t launch, uint64_t value) {
    if (launch != node_launch) {
        fatal("another launch of a node");
    }
    node_has_value = 1;
    node_value = value;
}

int write_in(uint64_t stream, void *target, const void *source, size_t bytes) {
    struct operation *operation = enqueue(stream, WRITE);
    operation->target = target;
    operation->bytes = malloc(bytes);
    operation->length = bytes;
    memcpy(operation->bytes, source, bytes);
    return 0;
}

int clear_in(uint64_t stream, void *target, size_t bytes) {
    struct operation *operation = enqueue(stream, CLEAR);
    operation->target = target;
    operation->length = bytes;
    return 0;
}

int read_after(uint64_t stream, void *target, const void *source, size_t bytes) {
    if (fails("read")) {
        return 999;
    }
    drain(stream);
    memcpy(target, source, bytes);
    return 0;
}

int read_now(void *target, const void *source, size_t bytes) {
    if (fails("read")) {
        return 999;
    }
    memcpy(target, source, bytes);
    /* Meanwhile the device does what waits for no kernel. */
    for (size_t at = 0; at < MOST && streams[at].last; at++) {
        while (streams[at].first && streams[at].first->kind != KERNEL) {
            run_first(at);
        }
    }
    return 0;
}
