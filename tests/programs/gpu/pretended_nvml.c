/* As much of NVIDIA's management library as an agent asks: two GPUs whose counters grow at known rates from the start of the process on.
   PRETENDED_NVML=broken: every call but that for the number of GPUs fails. =hangs: readings never return from the third one on. =mig: the first
   GPU is divided in two parts. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, GPU_IS_LOST = 15, GPUS = 2, PARTS = 2, LINKS = 4 };
enum { NVLINK_SPEED = 90, NVLINK_SENT = 138, NVLINK_RECEIVED = 139, PCIE_SENT = 197, PCIE_RECEIVED = 198 };

struct gpu {
    unsigned number;
    int part; /* -1: all of it */
};
static struct gpu gpus[GPUS] = {{0, -1}, {1, -1}};
static struct gpu parts[PARTS] = {{0, 0}, {0, 1}};
typedef struct gpu *device;

static int is(const char *behaviour) {
    const char *wanted = getenv("PRETENDED_NVML");
    return wanted && strcmp(wanted, behaviour) == 0;
}

static int state(void) {
    return is("broken") ? GPU_IS_LOST : SUCCESS;
}

/* Seconds since the first call. */
static double elapsed_s(void) {
    static struct timespec begin;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!begin.tv_sec) {
        begin = now;
    }
    return (double)(now.tv_sec - begin.tv_sec) + 1e-9 * (double)(now.tv_nsec - begin.tv_nsec);
}

int nvmlInit_v2(void) {
    elapsed_s();
    return SUCCESS;
}

int nvmlShutdown(void) {
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    snprintf(version, length, "570.86.15");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = GPUS;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned number, device *found) {
    if (number >= GPUS) {
        return INVALID_ARGUMENT;
    }
    *found = &gpus[number];
    return SUCCESS;
}

int nvmlDeviceGetUUID(device it, char *uuid, unsigned length) {
    if (it->part < 0) {
        snprintf(uuid, length, "GPU-00000000-0000-0000-0000-00000000000%u", it->number);
    } else {
        snprintf(uuid, length, "MIG-00000000-0000-0000-0000-0000000000%u%d", it->number, it->part);
    }
    return state();
}

int nvmlDeviceGetName(device it, char *name, unsigned length) {
    snprintf(name, length, it->part < 0 ? "Pretended GPU" : "Pretended GPU MIG 3g.40gb");
    return state();
}

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32];
};

static int pci_of(unsigned number, struct pci *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x17 + number;
    snprintf(pci->address, sizeof pci->address, "00000000:%X:00.0", pci->bus);
    return state();
}

int nvmlDeviceGetPciInfo_v3(device it, struct pci *pci) {
    return it->part < 0 ? pci_of(it->number, pci) : NOT_SUPPORTED;
}

struct memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

/* In use: 10 GB, 1 GB of a part. */
int nvmlDeviceGetMemoryInfo_v2(device it, struct memory *memory) {
    memory->total = it->part < 0 ? 80000000000ull : 40000000000ull;
    memory->used = it->part < 0 ? 10000000000ull : 1000000000ull;
    memory->free = memory->total - memory->used;
    return state();
}

/* Busy: 50 % and 25 % of the time; NVML cannot say it of a divided GPU, nor of a part. */
int nvmlDeviceGetUtilizationRates(device it, unsigned rates[2]) {
    static int readings;
    if (is("hangs") && ++readings > 2 * GPUS) {
        for (;;) {
            pause();
        }
    }
    if (is("mig") && it->number == 0) {
        return NOT_SUPPORTED;
    }
    rates[0] = it->number == 0 ? 50 : 25;
    rates[1] = 10;
    return state();
}

struct field_value {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type;
    int status;
    union {
        unsigned number;
        unsigned long long large;
    } value;
};

/* All NVLinks of the first GPU send 4 GB/s and receive 2 GB/s; by PCIe it sends 100 MB/s and receives 300 MB/s, in a counter of 32 bits. */
int nvmlDeviceGetFieldValues(device it, int count, struct field_value *values) {
    for (int at = 0; at < count; at++) {
        struct field_value *value = &values[at];
        const double seconds = elapsed_s();
        value->status = it->number == 0 && it->part < 0 ? state() : NOT_SUPPORTED;
        value->type = 3;
        switch (value->field) {
        case NVLINK_SPEED: value->type = 1, value->value.number = 25000; break;
        case NVLINK_SENT: value->value.large = (unsigned long long)(4e9 * seconds / 1024); break;
        case NVLINK_RECEIVED: value->value.large = (unsigned long long)(2e9 * seconds / 1024); break;
        case PCIE_SENT: value->type = 1, value->value.number = (unsigned)(uint64_t)(4.2e9 + 1e8 * seconds); break;
        case PCIE_RECEIVED: value->value.large = (unsigned long long)(3e8 * seconds); break;
        default: value->status = INVALID_ARGUMENT;
        }
        if ((value->field == NVLINK_SENT || value->field == NVLINK_RECEIVED) && value->scope != UINT32_MAX) {
            value->status = INVALID_ARGUMENT;
        }
    }
    return SUCCESS;
}

/* By PCIe the second GPU, which has no counter, sends 7 MB/s and receives 5 MB/s; in KB/s. */
int nvmlDeviceGetPcieThroughput(device it, int is_received, unsigned *throughput) {
    *throughput = is_received ? 5000 : 7000;
    return it->number == 1 ? state() : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxPcieLinkGeneration(device it, unsigned *generation) {
    (void)it;
    *generation = 5;
    return state();
}

int nvmlDeviceGetMaxPcieLinkWidth(device it, unsigned *width) {
    (void)it;
    *width = 16;
    return state();
}

int nvmlDeviceGetMigMode(device it, unsigned *current, unsigned *pending) {
    *current = *pending = is("mig") && it->number == 0;
    return it->number == 0 ? state() : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxMigDeviceCount(device it, unsigned *count) {
    (void)it;
    *count = 7;
    return state();
}

int nvmlDeviceGetMigDeviceHandleByIndex(device it, unsigned number, device *found) {
    (void)it;
    if (number >= PARTS) {
        return INVALID_ARGUMENT;
    }
    *found = &parts[number];
    return SUCCESS;
}

/* A PCIe switch connects them. */
int nvmlDeviceGetTopologyCommonAncestor(device one, device other, int *level) {
    (void)one, (void)other;
    *level = 10;
    return state();
}

/* Four NVLinks of each: three to the other one, one to a switch. */
int nvmlDeviceGetNvLinkState(device it, unsigned link, int *active) {
    (void)it;
    *active = link < LINKS;
    return link < LINKS ? state() : INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(device it, unsigned link, struct pci *pci) {
    return pci_of(link == 3 ? 9 : 1 - it->number, pci);
}
