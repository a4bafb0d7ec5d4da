/* Functions of the driver that NVBit and its user call. */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

const struct fake_hooks *hooks;

void fake_hook(const struct fake_hooks *given) { hooks = given; }

/* With NVBit, a call of the driver. */
void hooked(uint64_t context, const char *name, void *parameters, int is_exit) {
    if (hooks) {
        hooks->event(as_handle(context), is_exit, name, parameters);
    }
}

void hooked_call(uint64_t context, const char *name, void *parameters) {
    hooked(context, name, parameters, 0);
    hooked(context, name, parameters, 1);
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
    may_be_called();
    drain((uintptr_t)stream);
    return 0;
}

int cuStreamQuery(void *stream) {
    (void)stream;
    return 0;
}

int cuStreamIsCapturing(void *stream, int *status) {
    *status = is_captured((uintptr_t)stream);
    return 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    may_be_called();
    if (fails("alloc")) {
        return 2;
    }
    *address = (uintptr_t)malloc(bytes);
    memset(as_handle(*address), 0xa5, bytes);
    return 0;
}

int cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t bytes, void *stream) {
    return write_in((uintptr_t)stream, as_handle(target), source, bytes);
}

int cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t bytes, void *stream) {
    return read_after((uintptr_t)stream, target, as_handle(source), bytes);
}

int cuMemsetD8Async(uint64_t target, unsigned char value, size_t bytes, void *stream) {
    (void)value; /* always 0 */
    return clear_in((uintptr_t)stream, as_handle(target), bytes);
}
