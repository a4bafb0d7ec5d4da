/* The driver for a package that loads it by itself and asks it for its functions, as far as Numba does: device memory is the
 * host's, code is nothing, and each launch is one warp that stores to memory of the other device.
 */
#include "../fake/fake.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* As cuda.h has them. */
enum { MOST_THREADS = 1, MOST_GRID_Z = 7, WARP = 10, CAPABILITY = 75, MINOR = 76, CONTEXT_OF = 1, MEMORY_TYPE = 2 };

static uint64_t peer;

static int ready(void **context) {
    if (!peer) {
        fake_context(1, 0);
        fake_context(2, 1);
        fake_module(1, 7, NULL, 0);
        peer = fake_alloc(1, 1, 1 << 20, 0);
    }
    *context = (void *)1;
    return 0;
}

static int retain(void **context, int device) {
    (void)device;
    return ready(context);
}

static int current(void **context) {
    *context = peer ? (void *)1 : NULL;
    return 0;
}

static int device_number(int *device, int which) {
    *device = which;
    return 0;
}

static int device_of_context(int *device) {
    *device = 0;
    return 0;
}

static int device_name(char *name, int length, int device) {
    (void)device;
    strncpy(name, "pretended", (size_t)length);
    return 0;
}

static int device_attribute(int *value, int which, int device) {
    (void)device;
    *value = which == CAPABILITY ? 9 : which == MINOR ? 0 : which == WARP ? 32 : which >= MOST_THREADS && which <= MOST_GRID_Z ? 1024 : 1;
    return 0;
}

static int version(int *value) {
    *value = 13000;
    return 0;
}

static int allocate(uint64_t *address, size_t bytes) {
    *address = (uint64_t)(uintptr_t)calloc(1, bytes);
    return 0;
}

static int release(void *memory) {
    free(memory);
    return 0;
}

static int copy(void *target, const void *source, size_t bytes) {
    memcpy(target, source, bytes);
    return 0;
}

static int room(size_t *free_bytes, size_t *all) {
    *free_bytes = *all = (size_t)1 << 34;
    return 0;
}

static int pointer_attribute(void *value, int which, uint64_t address) {
    (void)address;
    if (which == MEMORY_TYPE) {
        *(int *)value = 2;
    } else {
        *(uint64_t *)value = which == CONTEXT_OF;
    }
    return 0;
}

static int function_attribute(int *value, int which, void *function) {
    (void)which;
    (void)function;
    *value = 16;
    return 0;
}

/* Modules, functions, streams: any handle, each once. */
static int handle(void **handle) {
    static uintptr_t last = 0x1000;
    *handle = (void *)(last += 16);
    return 0;
}

static int launch(void) {
    const struct fake_access store = {0xe0, peer, ~0u, 8, FAKE_STORE, 1};
    fake_launch(1, 1, 7, "copy", &store, 1);
    return 0;
}

static int wait(void) {
    fake_context_wait(1);
    return 0;
}

static int yes(void) { return 0; }

int cuGetProcAddress_v2(const char *name, void **found, int asked, uint64_t flags, int *status) {
#define OWN(name, function) {name, (void *)(function)}
    static const struct { const char *name; void *function; } own[] = {
        OWN("cuInit", cuInit), OWN("cuGetProcAddress", cuGetProcAddress_v2), OWN("cuDriverGetVersion", version),
        OWN("cuDeviceGet", device_number), OWN("cuDeviceGetName", device_name), OWN("cuDeviceGetAttribute", device_attribute),
        OWN("cuDevicePrimaryCtxRetain", retain), OWN("cuCtxGetCurrent", current), OWN("cuCtxPopCurrent", current),
        OWN("cuCtxGetDevice", device_of_context), OWN("cuMemAlloc", allocate), OWN("cuMemAllocAsync", allocate),
        OWN("cuMemFree", release), OWN("cuMemFreeAsync", release), OWN("cuMemcpyHtoD", copy), OWN("cuMemcpyDtoH", copy),
        OWN("cuMemcpyDtoD", copy), OWN("cuMemcpyHtoDAsync", copy), OWN("cuMemcpyDtoHAsync", copy), OWN("cuMemGetInfo", room),
        OWN("cuPointerGetAttribute", pointer_attribute), OWN("cuFuncGetAttribute", function_attribute),
        OWN("cuKernelGetAttribute", function_attribute), OWN("cuModuleLoadDataEx", handle), OWN("cuLibraryLoadData", handle),
        OWN("cuModuleGetFunction", handle), OWN("cuLibraryGetKernel", handle), OWN("cuStreamCreate", handle),
        OWN("cuLaunchKernel", launch), OWN("cuLaunchKernelEx", launch),
        OWN("cuLaunchCooperativeKernel", launch), OWN("cuCtxSynchronize", wait), OWN("cuStreamSynchronize", wait)};
    (void)asked;
    (void)flags;
    *found = NULL;
    for (size_t at = 0; at < sizeof own / sizeof *own; at++) {
        if (strcmp(own[at].name, name) == 0) {
            *found = own[at].function;
        }
    }
    /* Counts, numbers and names of devices; or nothing that matters. */
    void *self = *found ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *driver = self && strncmp(name, "cuDevice", 8) == 0 ? dlsym(self, name) : NULL;
    *found = *found ? *found : driver ? driver : (void *)yes;
    if (status) {
        *status = 0;
    }
    return 0;
}
