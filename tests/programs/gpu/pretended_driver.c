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
static int is_initialised;

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

int cuCtxGetDevice(int *device) {
    *device = current;
    return current < 0 ? NO_CONTEXT : 0;
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
