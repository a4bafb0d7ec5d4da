/* Contexts, modules and their functions. */
#include "parts.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct context contexts[8];
struct module modules[MOST];
static uint64_t current_context;

void fatal(const char *why) {
    fprintf(stderr, "fake: %s\n", why);
    _exit(99);
}

int fails(const char *what) {
    const char *wanted = getenv("FAKE_FAILS");
    return wanted && strstr(wanted, what) != NULL;
}

uint64_t context_of(int device) {
    for (size_t at = 0; at < 8; at++) {
        if (contexts[at].context && contexts[at].device == device) {
            return contexts[at].context;
        }
    }
    return contexts[0].context;
}

/* Functions: of a module, one of these. */
static const char *const functions[] = {"copy", "count", "other", "ignored", "calls", "also", "helper"};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

void *function_of(uint64_t module, const char *name) {
    for (size_t at = 0; at < FUNCTIONS; at++) {
        if (strcmp(functions[at], name) == 0) {
            return as_handle(0x10000 + module * 16 + at);
        }
    }
    if (hooks) {
        fatal("no such kernel");
    }
    return as_handle(module + 1);
}

static const uintptr_t of_library = (uintptr_t)1 << 46;

void *launched_as(void *function, uint64_t stream) {
    return hooks && stream & 1 ? (void *)((uintptr_t)function | of_library) : function;
}

void *fake_function(const void *function) { return (void *)((uintptr_t)function & ~of_library); }

uint64_t module_of(const void *function) { return ((uintptr_t)function - 0x10000) / 16; }

uint64_t code(uint64_t module, const char *name, uint64_t *bytes) {
    uint64_t begin = 0x7f0000000000ull + (module << 20);
    if (strcmp(name, "copy") == 0) {
        *bytes = 0x200;
    } else if (strcmp(name, "count") == 0) {
        begin += 0x1000;
        *bytes = 0x180;
    } else if (strcmp(name, "calls") == 0 || strcmp(name, "also") == 0) {
        begin += *name == 'c' ? 0x3000 : 0x3800;
        *bytes = 0x110;
    } else if (strcmp(name, "helper") == 0) {
        begin += 0x4000;
        *bytes = 0x110;
    } else {
        begin += strcmp(name, "ignored") == 0 ? 0x5000 : 0x2000;
        *bytes = 0x1000;
    }
    return begin;
}

const char *fake_function_name(const void *function) { return functions[(uintptr_t)function % 16 % FUNCTIONS]; }

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

static void tell_context(uint32_t id, uint64_t context, int device) {
    struct { void *context; int device; } data = {as_handle(context), device};
    struct { void *context, *green; int device; } later = {as_handle(context), as_handle(0x77), device};
    tell(RESOURCE, id, has_green_contexts() ? (void *)&later : &data);
}

void fake_context(uint64_t context, int device) {
    for (size_t at = 0; at < 8; at++) {
        if (!contexts[at].context || contexts[at].context == context) {
            contexts[at].context = context;
            contexts[at].device = device;
            break;
        }
    }
    /* The driver has memory of its own on the host. */
    struct memory_data driver = {.address = 0x6f0000000000ull + (context << 20), .bytes = 0x10000, .flags = FAKE_PINNED};
    tell_context(2, context, device);
    tell(RESOURCE, 13, &driver);
    tell_context(3, context, device);
    if (hooks) {
        hooks->context(as_handle(context), 1);
    }
}

void fake_context_destroy(uint64_t context) {
    tell_context(4, context, 0);
    if (hooks) {
        hooks->context(as_handle(context), 0);
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

static void unload(uint64_t context, uint64_t module, const char *call) {
    struct module_data data = {as_handle(context), as_handle(module), 0, NULL, NULL};
    tell(RESOURCE, 10, &data);
    hooked_call(context, call, &data.module);
}

void fake_module_unload(uint64_t context, uint64_t module) { unload(context, module, "cuModuleUnload"); }

/* A library has one module here, and its handle. */
void fake_library_unload(uint64_t context, uint64_t module) { unload(context, module, "cuLibraryUnload"); }

int cuCtxPushCurrent_v2(void *context) {
    may_be_called();
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

int cuFuncGetModule(void **module, const void *function) {
    may_be_called();
    if (fake_function(function) != function) {
        return 400;
    }
    *module = as_handle(module_of(function));
    return 0;
}

int cuKernelGetFunction(void **function, void *kernel) {
    *function = fake_function(kernel);
    return *function == kernel ? 400 : 0;
}

int cuLibraryGetModule(void **module, void *library) {
    *module = library;
    return 0;
}
