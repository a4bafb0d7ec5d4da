/* The Sanitizer. Where NVIDIA's documentation leaves open what happens, the program ends here, so that nobody relies on it. */
#include "parts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As NVIDIA's header has it. */
typedef void (*callback_function)(void *, uint32_t, uint32_t, const void *);

static callback_function callback;
static void *userdata;
static uint32_t domains;
static unsigned patchings;
/* The event that this thread is in. */
static __thread uint32_t told_domain, told_id;
static struct { uint64_t address, bytes, context; } own[4096];

void tell(uint32_t domain, uint32_t id, const void *data) {
    uint32_t before[] = {told_domain, told_id};
    if (callback && (domains >> domain & 1)) {
        told_domain = domain;
        told_id = id;
        callback(userdata, domain, id, data);
        told_domain = before[0];
        told_id = before[1];
    }
}

/* Others patch when a module was loaded, and at launches: of other moments nothing is known. */
static void patching(void) {
    if (!(told_domain == RESOURCE && told_id == 9) && !(told_domain == LAUNCH && told_id == 1) && told_domain != GRAPHS) {
        fatal("patching at a moment of which nobody says that it may be done then");
    }
}

static int has_ended;

void fake_end(void) { has_ended = 1; }

uint64_t null_stream(uint64_t context) { return 0x1d1e00000000ull + context; }

/* The stream for something that is done with memory of ours. */
static uint64_t stream_for(const void *address, void *stream) {
    size_t at = 0;
    if (has_ended) {
        fatal("the driver is used while it is taken down");
    }
    if (!stream) {
        fatal("the NULL stream of whichever context is current");
    }
    while (at < sizeof own / sizeof *own && ((uintptr_t)address < own[at].address || (uintptr_t)address >= own[at].address + own[at].bytes)) {
        at++;
    }
    if (at == sizeof own / sizeof *own || context_of_stream((uintptr_t)stream) != own[at].context) {
        fatal("memory of one context in a stream of another");
    }
    return (uintptr_t)stream;
}

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

int has_green_contexts(void) { return getenv("FAKE_GREEN_CONTEXTS") != NULL; }

int sanitizerEnableCallback(uint32_t on, void *subscriber, uint32_t domain, uint32_t id) {
    if (domain == RESOURCE && id > 28) {
        return has_green_contexts() ? 0 : 1; /* an event that this version does not have */
    }
    return sanitizerEnableDomain(on, subscriber, domain);
}

int sanitizerAddPatchesFromFile(const char *file, void *context) {
    (void)context;
    patching();
    return access(file, R_OK) == 0 ? 0 : 1;
}

int sanitizerPatchInstructions(int instruction, void *module, const char *function) {
    static const struct { int instruction; const char *function; } known[] = {
        {3, "mpisee_access"}, {30, "mpisee_bulk_load"}, {35, "mpisee_bulk_store"}};
    /* Plain patches can neither sample nor record. */
    int has_more = getenv("MPISEE_GPU_SAMPLE") || getenv("MPISEE_GPU_RECORDS");
    patching();
    if (strcmp(function, "mpisee_access_more") == 0 && has_more) {
        function = "mpisee_access";
    } else if (strcmp(function, "mpisee_access") == 0 && has_more) {
        return 1;
    }
    for (uint32_t at = 0; at < 3; at++) {
        if (known[at].instruction == instruction && strcmp(known[at].function, function) == 0) {
            if (modules[(uintptr_t)module % MOST].instructions >> at & 1) {
                fatal("an instruction is to be patched twice");
            }
            modules[(uintptr_t)module % MOST].instructions |= 1u << at;
            return 0;
        }
    }
    return 1; /* this device has no such instruction */
}

/* As the Sanitizer of CUDA 13.0, which never returns then. */
static void patched_in_launch(void) {
    if (in_own_stream) {
        fatal("a module is patched, or unpatched, at the launch of a kernel in a stream of the program");
    }
}

int sanitizerPatchModule(void *module) {
    patching();
    patched_in_launch();
    if (fails("patch")) {
        return 1;
    }
    if (modules[(uintptr_t)module % MOST].is_patched) {
        fatal("a module is patched twice");
    }
    modules[(uintptr_t)module % MOST].is_patched = 1;
    patchings++;
    return 0;
}

int sanitizerUnpatchModule(void *module) {
    patched_in_launch();
    if (!modules[(uintptr_t)module % MOST].is_patched) {
        fatal("a module is unpatched that was not patched");
    }
    if (kernels_wait((uintptr_t)module)) {
        fatal("a module is unpatched whose kernels may run");
    }
    modules[(uintptr_t)module % MOST].is_patched = 0;
    /* NVIDIA does not document whether the instructions to be patched are remembered. */
    modules[(uintptr_t)module % MOST].instructions = 0;
    return 0;
}

unsigned fake_patchings(void) { return patchings; }

int sanitizerSetLaunchCallbackData(void *launch, void *function, void *stream, const void *data) {
    struct launch *own_launch = launch;
    if (!own_launch || !function || !stream) {
        fatal("data for no launch");
    }
    if (!modules[own_launch->module % MOST].is_patched) {
        fatal("data for a launch that has no patches");
    }
    own_launch->userdata = data;
    return 0;
}

int sanitizerGetFunctionPcAndSize(void *module, const char *name, uint64_t *pc, uint64_t *bytes) {
    *pc = code((uintptr_t)module, name, bytes);
    return 0;
}

int sanitizerGetStreamHandle(void *context, void *stream, void **handle) {
    if (!context || stream) {
        return 1;
    }
    *handle = as_handle(null_stream((uintptr_t)context));
    return 0;
}

int sanitizerAlloc(void *context, void **address, size_t bytes) {
    struct memory_data data = {.bytes = bytes, .context = context};
    if (fails("alloc")) {
        return 7;
    }
    *address = malloc(bytes);
    memset(*address, 0xa5, bytes);
    size_t at = 0;
    while (at < sizeof own / sizeof *own && own[at].address) {
        at++;
    }
    if (at == sizeof own / sizeof *own) {
        fatal("too much memory for the tracer itself");
    }
    own[at].address = (uintptr_t)*address;
    own[at].bytes = bytes;
    own[at].context = (uintptr_t)context;
    /* Should the driver tell of this memory, too. */
    data.address = (uintptr_t)*address;
    tell(RESOURCE, 11, &data);
    return 0;
}

int sanitizerMemcpyHostToDeviceAsync(void *target, void *source, size_t bytes, void *stream) {
    return write_in(stream_for(target, stream), target, source, bytes);
}

int sanitizerMemcpyDeviceToHost(void *target, void *source, size_t bytes, void *stream) {
    stream_for(source, stream);
    return read_now(target, source, bytes);
}

int sanitizerStreamSynchronize(void *stream) {
    drain((uintptr_t)stream);
    return 0;
}

int sanitizerMemset(void *target, int value, size_t bytes, void *stream) {
    (void)value; /* always 0 */
    return clear_in(stream_for(target, stream), target, bytes);
}
