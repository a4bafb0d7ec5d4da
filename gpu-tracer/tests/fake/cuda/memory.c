/* Memory of the program: addresses alone. */
#include "parts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct api_data {
    uint32_t site;
    const char *name;
    const void *parameters;
    const int *result;
    const char *symbol;
    void *context;
};

static struct { uint64_t address, bytes; int device, is_live, is_host; uint32_t flags; } memory[4096];
static uint64_t next_address;

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

int cuPointerGetAttribute(int *value, int attribute, uint64_t address) {
    for (size_t at = 0; attribute == 9 && at < sizeof memory / sizeof *memory; at++) {
        if (memory[at].is_live && memory[at].address == address) {
            *value = memory[at].device;
            return 0;
        }
    }
    return 1;
}

uint64_t placed(size_t bytes, int device, uint32_t event) {
    size_t at = place(bytes, device, 0);
    memory[at].flags = 0;
    if (event) {
        tell_memory(event, at, 0);
    }
    return memory[at].address;
}

void unplaced(uint64_t address) {
    for (size_t at = 0; at < sizeof memory / sizeof *memory; at++) {
        if (memory[at].address == address) {
            memory[at].is_live = 0;
        }
    }
}

void called(uint32_t id, void *parameters) {
    static const struct { uint32_t id; const char *name; } names[] = {
        {379, "cuMemHostRegister_v2"}, {302, "cuMemHostUnregister"},   {328, "cuIpcGetMemHandle"},
        {567, "cuIpcOpenMemHandle_v2"}, {330, "cuIpcCloseMemHandle"}, {549, "cuMemCreate"},
        {551, "cuMemMap"}, {552, "cuMemUnmap"}, {554, "cuMemExportToShareableHandle"},
        {555, "cuMemImportFromShareableHandle"}, {565, "cuMemRetainAllocationHandle"},
        {615, "cuMemPoolExportPointer"}, {616, "cuMemPoolImportPointer"}};
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
    uint64_t offset = address - base;
    memset(handle, 0, 64);
    memcpy(handle, &base, 8);
    memcpy(handle + 8, &bytes, 8);
    memcpy(handle + 16, &offset, 8);
    called(328, &call);
}

/* Blocks that are mapped because a part of each was, once however many parts of it are. */
static struct { uint64_t base, mapping; } blocks[8];

static uint64_t block(uint64_t base, size_t bytes) {
    size_t at = 0;
    while (at < sizeof blocks / sizeof *blocks && blocks[at].base && blocks[at].base != base) {
        at++;
    }
    if (at == sizeof blocks / sizeof *blocks) {
        fatal("too many blocks");
    }
    if (!blocks[at].base) {
        blocks[at].base = base;
        blocks[at].mapping = placed(bytes, 0, 0);
    }
    return blocks[at].mapping;
}

uint64_t fake_ipc_open(const unsigned char handle[64]) {
    struct { uint64_t *address; unsigned char handle[64]; unsigned flags; } call;
    uint64_t base, address, offset;
    size_t bytes, at;
    memcpy(&base, handle, 8);
    memcpy(&bytes, handle + 8, 8);
    memcpy(&offset, handle + 16, 8);
    if (offset) {
        address = block(base, bytes) + offset;
    } else {
        at = place(bytes, 0, 0);
        memory[at].flags = 0;
        /* The driver reports memory before it says of which kind it is. */
        tell_memory(11, at, 0);
        address = memory[at].address;
    }
    call.address = &address;
    memcpy(call.handle, handle, 64);
    called(567, &call);
    return address;
}

void fake_ipc_close(uint64_t address) {
    uint64_t base;
    size_t bytes;
    called(330, &address);
    /* A block of which a part was mapped stays. */
    if (cuMemGetAddressRange_v2(&base, &bytes, address) == 0 && base == address) {
        freed(address);
    }
}
