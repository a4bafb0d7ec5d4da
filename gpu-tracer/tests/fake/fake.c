#include "fake.h"

#include "../../device/core.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What NVIDIA's headers have, as far as it is played. */
typedef void (*callback_function)(void *, uint32_t, uint32_t, const void *);
enum { DRIVER = 1, RESOURCE = 3, SYNCHRONIZE = 4, LAUNCH = 5, GRAPHS = 10 };

struct api_data {
    uint32_t site;
    const char *name;
    const void *parameters;
    const int *result;
    const char *symbol;
    void *context;
};

struct memory_data {
    uint64_t address, bytes;
    void *context;
    int device;
    void *stream, *handle, *pool;
    uint32_t flags, permissions, visibility;
    int source;
};

struct launch_data {
    void *context, *stream, *handle, *module, *function;
    const char *name;
    uint32_t dimensions[9];
    uint64_t grid;
    void *launch;
    int device;
    void *api[3];
};

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
    struct operation *next;
};

#define MOST 256

static callback_function callback;
static void *userdata;
static uint32_t domains;
static struct { uint64_t key; struct operation *first, **last; } streams[MOST];
static struct { uint64_t module; uint32_t instructions; int is_patched; const void *image; size_t bytes; } modules[MOST];
static const struct fake_hooks *hooks;
static struct { uint64_t context; int device; } contexts[8];
static uint64_t current_context;
static uint64_t node_value;
static struct { uint64_t address, bytes; int device, is_live, is_host; uint32_t flags; } memory[4096];
static uint64_t next_address;
static unsigned patched_launches;

static void fatal(const char *why) {
    fprintf(stderr, "fake: %s\n", why);
    _exit(99);
}

static void *as_handle(uint64_t number) { return (void *)(uintptr_t)number; }

static void tell(uint32_t domain, uint32_t id, const void *data) {
    if (callback && (domains >> domain & 1)) {
        callback(userdata, domain, id, data);
    }
}

static int fails(const char *what) {
    const char *wanted = getenv("FAKE_FAILS");
    return wanted && strstr(wanted, what) != NULL;
}

/* With NVBit, a call of the driver. */
static void hooked(uint64_t context, const char *name, void *parameters, int is_exit) {
    if (hooks) {
        hooks->event(as_handle(context), is_exit, name, parameters);
    }
}

static void hooked_call(uint64_t context, const char *name, void *parameters) {
    hooked(context, name, parameters, 0);
    hooked(context, name, parameters, 1);
}

static uint64_t context_of(int device) {
    for (size_t at = 0; at < 8; at++) {
        if (contexts[at].context && contexts[at].device == device) {
            return contexts[at].context;
        }
    }
    return contexts[0].context;
}

/* Functions: of a module, one of these. */
static const char *const functions[] = {"copy", "count", "other", "ignored"};

static void *function_of(uint64_t module, const char *name) {
    for (size_t at = 0; at < 4; at++) {
        if (strcmp(functions[at], name) == 0) {
            return as_handle(0x10000 + module * 16 + at);
        }
    }
    if (hooks) {
        fatal("no such kernel");
    }
    return as_handle(module + 1);
}

static uint64_t module_of(const void *function) { return ((uintptr_t)function - 0x10000) / 16; }

/* --- the driver ------------------------------------------------------------------------------------------------ */

int cuInit(unsigned flags) {
    static int is_done;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    (void)flags;
    if (path && !is_done) {
        is_done = 1;
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        int (*initialize)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
        if (!initialize) {
            fatal(dlerror());
        }
        initialize();
    }
    return 0;
}

int cuDeviceGetCount(int *count) {
    *count = getenv("FAKE_DEVICES") ? atoi(getenv("FAKE_DEVICES")) : 2;
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char uuid[16], int device) {
    memset(uuid, 0, 16);
    uuid[15] = (unsigned char)device;
    return 0;
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t address) {
    for (size_t at = 0; at < sizeof memory / sizeof *memory; at++) {
        if (memory[at].is_live && address >= memory[at].address && address < memory[at].address + memory[at].bytes) {
            *base = memory[at].address;
            *bytes = memory[at].bytes;
            return 0;
        }
    }
    return 1;
}

void fake_context(uint64_t context, int device) {
    struct { void *context; int device; } data = {as_handle(context), device};
    for (size_t at = 0; at < 8; at++) {
        if (!contexts[at].context || contexts[at].context == context) {
            contexts[at].context = context;
            contexts[at].device = device;
            break;
        }
    }
    tell(RESOURCE, 3, &data);
    if (hooks) {
        hooks->context(data.context, 1);
    }
}

void fake_context_destroy(uint64_t context) {
    struct { void *context; int device; } data = {as_handle(context), 0};
    tell(RESOURCE, 4, &data);
    if (hooks) {
        hooks->context(data.context, 0);
    }
}

struct module_data { void *context, *module; size_t bytes; const void *image; void *library; };

void fake_module(uint64_t context, uint64_t module, const void *image, size_t bytes) {
    struct module_data data = {as_handle(context), as_handle(module), bytes, image, NULL};
    modules[module % MOST].module = module;
    modules[module % MOST].instructions = 0;
    modules[module % MOST].is_patched = 0;
    modules[module % MOST].image = image;
    modules[module % MOST].bytes = bytes;
    tell(RESOURCE, 9, &data);
}

void fake_module_unload(uint64_t context, uint64_t module) {
    struct module_data data = {as_handle(context), as_handle(module), 0, NULL, NULL};
    tell(RESOURCE, 10, &data);
    hooked_call(context, "cuModuleUnload", &data.module);
}

/* Memory that was freed is used again, as by an allocator. */
static size_t place(size_t bytes, int device, int is_host) {
    size_t at = 0;
    while (at < sizeof memory / sizeof *memory && memory[at].address &&
           (memory[at].is_live || memory[at].bytes != bytes || memory[at].is_host != is_host ||
            memory[at].device != device)) {
        at++;
    }
    if (at == sizeof memory / sizeof *memory) {
        fatal("too much memory");
    }
    if (!memory[at].address) {
        if (!next_address) {
            next_address = 0x700000000000ull + (uint64_t)getpid() * 0x100000000ull;
        }
        memory[at].address = next_address;
        next_address += (bytes + 0x1fff) & ~0xfffull; /* with a gap */
    }
    memory[at].bytes = bytes;
    memory[at].device = device;
    memory[at].is_host = is_host;
    memory[at].is_live = 1;
    return at;
}

static void tell_memory(uint32_t id, size_t at, uint64_t context) {
    struct memory_data data = {
        .address = memory[at].address,
        .bytes = memory[at].bytes,
        .context = as_handle(context),
        .device = memory[at].device,
        .flags = memory[at].flags,
        .source = memory[at].device,
    };
    tell(RESOURCE, id, &data);
}

uint64_t fake_alloc(uint64_t context, int device, size_t bytes, uint32_t flags) {
    size_t at = place(bytes, device, 0);
    uint64_t own = context_of(device);
    memory[at].flags = flags;
    tell_memory(11, at, context);
    struct { uint64_t *address; size_t bytes; unsigned flags; } call = {&memory[at].address, bytes, 0};
    hooked_call(own, flags & FAKE_MANAGED ? "cuMemAllocManaged" : "cuMemAlloc_v2", &call);
    return memory[at].address;
}

uint64_t fake_host_alloc(uint64_t context, size_t bytes) {
    size_t at = place(bytes, 0, 1);
    memory[at].flags = 0;
    tell_memory(13, at, context);
    struct { uint64_t *address; size_t bytes; unsigned flags; } call = {&memory[at].address, bytes, 0};
    hooked_call(context, "cuMemHostAlloc", &call);
    return memory[at].address;
}

static void freed(uint64_t address) {
    for (size_t at = 0; at < sizeof memory / sizeof *memory; at++) {
        if (memory[at].is_live && memory[at].address == address) {
            memory[at].is_live = 0;
            tell_memory(memory[at].is_host ? 14 : 12, at, 0);
            return;
        }
    }
    fatal("freed twice");
}

void fake_free(uint64_t address) {
    size_t at = 0;
    while (at < sizeof memory / sizeof *memory - 1 && memory[at].address != address) {
        at++;
    }
    const char *name = memory[at].is_host ? "cuMemFreeHost" : "cuMemFree_v2";
    hooked(contexts[0].context, name, &address, 0);
    freed(address);
    hooked(contexts[0].context, name, &address, 1);
}

static void called(uint32_t id, void *parameters) {
    static const struct { uint32_t id; const char *name; } names[] = {
        {379, "cuMemHostRegister_v2"}, {302, "cuMemHostUnregister"},   {328, "cuIpcGetMemHandle"},
        {567, "cuIpcOpenMemHandle_v2"}, {330, "cuIpcCloseMemHandle"}};
    int success = 0;
    for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
        if (names[at].id == id) {
            hooked_call(contexts[0].context, names[at].name, parameters);
        }
    }
    struct api_data data = {0, "cuSomething", parameters, NULL, NULL, NULL};
    tell(DRIVER, id, &data);
    data.site = 1;
    data.result = &success;
    tell(DRIVER, id, &data);
}

void fake_register(void *address, size_t bytes) {
    struct { void *address; size_t bytes; unsigned flags; } call = {address, bytes, 0};
    called(379, &call);
}

void fake_unregister(void *address) { called(302, &address); }

void fake_ipc_get(uint64_t address, unsigned char handle[64]) {
    struct { unsigned char *handle; uint64_t address; } call = {handle, address};
    uint64_t base;
    size_t bytes;
    if (cuMemGetAddressRange_v2(&base, &bytes, address)) {
        fatal("no memory to export");
    }
    memset(handle, 0, 64);
    memcpy(handle, &base, 8);
    memcpy(handle + 8, &bytes, 8);
    called(328, &call);
}

uint64_t fake_ipc_open(const unsigned char handle[64]) {
    struct { uint64_t *address; unsigned char handle[64]; unsigned flags; } call;
    size_t bytes, at;
    memcpy(&bytes, handle + 8, 8);
    at = place(bytes, 0, 0);
    memory[at].flags = 0;
    /* The driver tells of memory before it says what it is. */
    tell_memory(11, at, 0);
    call.address = &memory[at].address;
    memcpy(call.handle, handle, 64);
    called(567, &call);
    return memory[at].address;
}

void fake_ipc_close(uint64_t address) {
    called(330, &address);
    freed(address);
}

static struct operation *enqueue(uint64_t stream, enum kind kind) {
    struct operation *operation = calloc(1, sizeof *operation);
    size_t at = 0;
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

static uint64_t code(uint64_t module, const char *name, uint64_t *bytes) {
    uint64_t begin = 0x7f0000000000ull + (module << 20);
    if (strcmp(name, "copy") == 0) {
        *bytes = 0x200;
    } else if (strcmp(name, "count") == 0) {
        begin += 0x1000;
        *bytes = 0x180;
    } else {
        begin += 0x2000;
        *bytes = 0x1000;
    }
    return begin;
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
    uint32_t patched = modules[kernel->module % MOST].is_patched ? modules[kernel->module % MOST].instructions : 0;
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

static void drain(uint64_t stream) {
    for (size_t at = 0; at < MOST && streams[at].last; at++) {
        if (streams[at].key != stream) {
            continue;
        }
        while (streams[at].first) {
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
    }
}

/* Which calls a launch has is settled when it is made. */
static void settle_calls(struct operation *operation, void *function) {
    for (size_t at = 0; hooks && at < operation->count; at++) {
        operation->has_call[at] = hooks->call_at(function, operation->accesses[at].offset, &operation->calls[at]);
        operation->has_calls |= operation->has_call[at];
    }
}

struct launch_parameters {
    void *function;
    unsigned grid[3], block[3], shared;
    void *stream, **parameters, **extra;
};

void fake_launch(uint64_t context, uint64_t stream, uint64_t module, const char *kernel,
                 const struct fake_access *accesses, size_t count) {
    struct operation *operation = calloc(1, sizeof *operation), *queued;
    struct launch_data data = {
        .context = as_handle(context),
        .handle = as_handle(stream),
        .module = as_handle(module),
        .function = function_of(module, kernel),
        .name = kernel,
        .launch = operation,
    };
    struct launch_parameters call = {.function = data.function, .stream = data.handle};
    tell(LAUNCH, 1, &data);
    hooked(context, "cuLaunchKernel", &call, 0);
    queued = enqueue(stream, KERNEL);
    queued->module = module;
    queued->userdata = operation->userdata;
    queued->count = count;
    snprintf(queued->name, sizeof queued->name, "%s", kernel);
    memcpy(queued->accesses, accesses, count * sizeof *accesses);
    settle_calls(queued, data.function);
    free(operation);
    data.launch = NULL;
    tell(LAUNCH, 3, &data);
    hooked(context, "cuLaunchKernel", &call, 1);
}

void fake_graph_launch(uint64_t context, uint64_t stream, uint64_t module, const char *kernel,
                       const struct fake_access *accesses, size_t count) {
    struct operation *operation = calloc(1, sizeof *operation), *queued;
    struct { void *graph; uint32_t launch_id; void *node; uint32_t kind; struct launch_data launch; } data = {0};
    data.launch.context = as_handle(context);
    data.launch.handle = as_handle(stream);
    data.launch.module = as_handle(module);
    data.launch.function = function_of(module, kernel);
    data.launch.name = kernel;
    data.launch.launch = operation;
    struct { void *node, *graph, *dependencies; size_t count; void **parameters; } call = {
        .parameters = &data.launch.function};
    hooked_call(context, "cuGraphAddKernelNode_v2", &call);
    tell(GRAPHS, 4, &data);
    queued = enqueue(stream, KERNEL);
    queued->module = module;
    queued->userdata = operation->userdata;
    queued->count = count;
    snprintf(queued->name, sizeof queued->name, "%s", kernel);
    memcpy(queued->accesses, accesses, count * sizeof *accesses);
    settle_calls(queued, data.launch.function);
    if (hooks) {
        node_value = 0;
        hooks->node(as_handle(context), data.launch.function, as_handle(stream), 77);
        for (size_t at = 0; at < count; at++) {
            queued->calls[at].launch = node_value;
        }
    }
    free(operation);
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
    hooked_call(context, "cuCtxSynchronize", NULL);
}

unsigned fake_patched_launches(void) { return patched_launches; }

/* --- the Sanitizer --------------------------------------------------------------------------------------------- */

int sanitizerSubscribe(void **subscriber, callback_function function, void *data) {
    if (fails("subscribe")) {
        return 13;
    }
    callback = function;
    userdata = data;
    *subscriber = &callback;
    return 0;
}

int sanitizerEnableDomain(uint32_t on, void *subscriber, uint32_t domain) {
    (void)subscriber;
    domains = on ? domains | 1u << domain : domains & ~(1u << domain);
    return 0;
}

int sanitizerEnableCallback(uint32_t on, void *subscriber, uint32_t domain, uint32_t id) {
    (void)id;
    return sanitizerEnableDomain(on, subscriber, domain);
}

int sanitizerAddPatchesFromFile(const char *file, void *context) {
    (void)context;
    return access(file, R_OK) == 0 ? 0 : 1;
}

int sanitizerPatchInstructions(int instruction, void *module, const char *function) {
    static const struct { int instruction; const char *function; } known[] = {
        {3, "mpisee_access"}, {30, "mpisee_bulk_load"}, {35, "mpisee_bulk_store"}};
    for (uint32_t at = 0; at < 3; at++) {
        if (known[at].instruction == instruction && strcmp(known[at].function, function) == 0) {
            modules[(uintptr_t)module % MOST].instructions |= 1u << at;
            return 0;
        }
    }
    return 1; /* this device has no such instruction */
}

int sanitizerPatchModule(void *module) {
    if (fails("patch")) {
        return 1;
    }
    modules[(uintptr_t)module % MOST].is_patched = 1;
    return 0;
}

int sanitizerSetLaunchCallbackData(void *launch, void *function, void *stream, const void *data) {
    (void)function;
    (void)stream;
    ((struct operation *)launch)->userdata = data;
    return 0;
}

int sanitizerGetFunctionPcAndSize(void *module, const char *name, uint64_t *pc, uint64_t *bytes) {
    *pc = code((uintptr_t)module, name, bytes);
    return 0;
}

int sanitizerAlloc(void *context, void **address, size_t bytes) {
    struct memory_data data = {.bytes = bytes, .context = context};
    if (fails("alloc")) {
        return 7;
    }
    *address = malloc(bytes);
    memset(*address, 0xa5, bytes);
    /* Whether the driver tells of this memory, too, is not written anywhere. */
    data.address = (uintptr_t)*address;
    tell(RESOURCE, 11, &data);
    return 0;
}

int sanitizerMemcpyHostToDeviceAsync(void *target, void *source, size_t bytes, void *stream) {
    struct operation *operation = enqueue((uintptr_t)stream, WRITE);
    operation->target = target;
    operation->bytes = malloc(bytes);
    operation->length = bytes;
    memcpy(operation->bytes, source, bytes);
    return 0;
}

int sanitizerMemcpyDeviceToHost(void *target, void *source, size_t bytes, void *stream) {
    if (fails("read")) {
        return 999;
    }
    drain((uintptr_t)stream);
    memcpy(target, source, bytes);
    return 0;
}

int sanitizerMemset(void *target, int value, size_t bytes, void *stream) {
    struct operation *operation = enqueue((uintptr_t)stream, CLEAR);
    (void)value;
    operation->target = target;
    operation->length = bytes;
    return 0;
}

/* --- what NVBit and its user ask the driver for ------------------------------------------------------------------ */

void fake_hook(const struct fake_hooks *given) { hooks = given; }

const char *fake_function_name(const void *function) { return functions[(uintptr_t)function % 16 % 4]; }

uint64_t fake_function_address(const void *function) {
    uint64_t bytes;
    return code(module_of(function), fake_function_name(function), &bytes);
}

int fake_dump(const void *function, const char *path) {
    uint64_t module = module_of(function) % MOST;
    FILE *file = fopen(path, "wb");
    if (!file) {
        return 0;
    }
    if (modules[module].image) {
        fwrite(modules[module].image, 1, modules[module].bytes, file);
    }
    return fclose(file) == 0;
}

void fake_set_node(uint64_t launch, uint64_t value) {
    if (launch != 77) {
        fatal("another launch of a node");
    }
    node_value = value;
}

int cuCtxPushCurrent_v2(void *context) {
    current_context = (uintptr_t)context;
    return 0;
}

int cuCtxPopCurrent_v2(void **context) {
    *context = as_handle(current_context);
    return 0;
}

int cuCtxGetDevice(int *device) {
    for (size_t at = 0; at < 8; at++) {
        if (contexts[at].context == current_context) {
            *device = contexts[at].device;
            return 0;
        }
    }
    return 201;
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
    static int own;
    int before = own;
    own = *mode;
    *mode = before;
    return 0;
}

/* Streams of our own are far from those of the program. */
int cuStreamCreate(void **stream, unsigned flags) {
    static uint64_t next = 0xff00;
    *stream = as_handle(next += 16);
    return flags == 1 ? 0 : 1;
}

int cuStreamSynchronize(void *stream) {
    drain((uintptr_t)stream);
    return 0;
}

int cuStreamQuery(void *stream) {
    (void)stream;
    return 0;
}

int cuStreamIsCapturing(void *stream, int *status) {
    (void)stream;
    *status = 0;
    return 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    if (fails("alloc")) {
        return 2;
    }
    *address = (uintptr_t)malloc(bytes);
    memset(as_handle(*address), 0xa5, bytes);
    return 0;
}

int cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t bytes, void *stream) {
    return sanitizerMemcpyHostToDeviceAsync(as_handle(target), (void *)(uintptr_t)source, bytes, stream);
}

int cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t bytes, void *stream) {
    return sanitizerMemcpyDeviceToHost(target, as_handle(source), bytes, stream);
}

int cuMemsetD8Async(uint64_t target, unsigned char value, size_t bytes, void *stream) {
    return sanitizerMemset(as_handle(target), value, bytes, stream);
}

int cuFuncGetModule(void **module, const void *function) {
    *module = as_handle(module_of(function));
    return 0;
}

int cuKernelGetFunction(void **function, void *kernel) {
    (void)function;
    (void)kernel;
    return 400;
}

int cuLibraryGetModule(void **module, void *library) {
    *module = library;
    return 0;
}

int cuPointerGetAttribute(int *value, int attribute, uint64_t address) {
    for (size_t at = 0; attribute == 9 && at < sizeof memory / sizeof *memory; at++) {
        if (memory[at].is_live && memory[at].address == address) {
            *value = memory[at].device;
            return 0;
        }
    }
    return 1;
}
