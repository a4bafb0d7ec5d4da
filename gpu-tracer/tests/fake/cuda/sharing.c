/* Memory that processes share otherwise than by CUDA IPC. */
#include "parts.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* CU_MEM_HANDLE_TYPE_… */
enum { FILE_DESCRIPTOR = 1, FABRIC = 8 };

static uint64_t next_handle = 0x5000;

int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t address);

uint64_t fake_create(int device, size_t bytes) {
    struct { int kind, handle_types, location_type, location; } properties = {1, FILE_DESCRIPTOR | FABRIC, 1, device};
    uint64_t handle = next_handle++;
    struct { uint64_t *handle; size_t bytes; const void *properties; unsigned long long flags; } call = {
        &handle, bytes, &properties, 0};
    called(549, &call);
    return handle;
}

uint64_t fake_map(uint64_t handle, size_t offset, size_t bytes) {
    struct { uint64_t address; size_t bytes, offset; uint64_t handle; unsigned long long flags; } call = {
        placed(bytes, 0, 0), bytes, offset, handle, 0};
    called(551, &call);
    return call.address;
}

void fake_unmap(uint64_t address, size_t bytes) {
    struct { uint64_t address; size_t bytes; } call = {address, bytes};
    called(552, &call);
    unplaced(address);
}

/* The driver does not say whether the handle is the one that there was. */
uint64_t fake_retain(uint64_t address) {
    uint64_t handle = next_handle++;
    struct { uint64_t *handle; void *address; } call = {&handle, as_handle(address)};
    called(565, &call);
    return handle;
}

/* The driver gives the number of an open device. */
int fake_export_file(uint64_t handle) {
    int file = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct { void *shareable; uint64_t handle; int kind; unsigned long long flags; } call = {
        &file, handle, FILE_DESCRIPTOR, 0};
    called(554, &call);
    return file;
}

uint64_t fake_import_file(int file) {
    uint64_t handle = next_handle++;
    struct { uint64_t *handle; void *shareable; int kind; } call = {&handle, as_handle((uint64_t)file), FILE_DESCRIPTOR};
    called(555, &call);
    return handle;
}

void fake_export_fabric(uint64_t handle, unsigned char shareable[64]) {
    struct { void *shareable; uint64_t handle; int kind; unsigned long long flags; } call = {
        shareable, handle, FABRIC, 0};
    pid_t own = getpid();
    memset(shareable, 0xfa, 64);
    memcpy(shareable, &handle, 8);
    memcpy(shareable + 8, &own, sizeof own);
    called(554, &call);
}

uint64_t fake_import_fabric(const unsigned char shareable[64]) {
    uint64_t handle = next_handle++;
    struct { uint64_t *handle; const void *shareable; int kind; } call = {&handle, shareable, FABRIC};
    called(555, &call);
    return handle;
}

uint64_t fake_pool_alloc(int device, size_t bytes) {
    uint64_t address = placed(bytes, device, 15);
    struct { uint64_t *address; size_t bytes; void *stream; } call = {&address, bytes, NULL};
    hooked_call(context_of(device), "cuMemAllocAsync", &call);
    return address;
}

void fake_pool_export(uint64_t address, unsigned char data[64]) {
    struct { unsigned char *data; uint64_t address; } call = {data, address};
    uint64_t base;
    size_t bytes;
    if (cuMemGetAddressRange_v2(&base, &bytes, address)) {
        fatal("no memory of a pool");
    }
    memset(data, 0xb0, 64);
    memcpy(data, &base, 8);
    memcpy(data + 8, &bytes, 8);
    called(615, &call);
}

uint64_t fake_pool_import(const unsigned char data[64]) {
    size_t bytes;
    memcpy(&bytes, data + 8, 8);
    uint64_t address = placed(bytes, 0, 28);
    struct { uint64_t *address; void *pool; const unsigned char *data; } call = {&address, NULL, data};
    called(616, &call);
    return address;
}
