/* The Sanitizer. */
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

void tell(uint32_t domain, uint32_t id, const void *data) {
    if (callback && (domains >> domain & 1)) {
        callback(userdata, domain, id, data);
    }
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
            if (modules[(uintptr_t)module % MOST].instructions >> at & 1) {
                fatal("an instruction is to be patched twice");
            }
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
    if (modules[(uintptr_t)module % MOST].is_patched) {
        fatal("a module is patched twice");
    }
    modules[(uintptr_t)module % MOST].is_patched = 1;
    patchings++;
    return 0;
}

int sanitizerUnpatchModule(void *module) {
    if (!modules[(uintptr_t)module % MOST].is_patched) {
        fatal("a module is unpatched that was not patched");
    }
    if (kernels_wait((uintptr_t)module)) {
        fatal("a module is unpatched whose kernels may run");
    }
    modules[(uintptr_t)module % MOST].is_patched = 0;
    return 0;
}

unsigned fake_patchings(void) { return patchings; }

int sanitizerSetLaunchCallbackData(void *launch, void *function, void *stream, const void *data) {
    (void)function;
    (void)stream;
    *(const void **)launch = data;
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
    return write_in((uintptr_t)stream, target, source, bytes);
}

int sanitizerMemcpyDeviceToHost(void *target, void *source, size_t bytes, void *stream) {
    return read_after((uintptr_t)stream, target, source, bytes);
}

int sanitizerMemset(void *target, int value, size_t bytes, void *stream) {
    (void)value; /* always 0 */
    return clear_in((uintptr_t)stream, target, bytes);
}
