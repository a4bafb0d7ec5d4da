/* The device's part for the host's compiler, as tests call it. */
#include "core.h"

void mp_host_access(const struct mp_launch *launch, uint64_t pc, const uint64_t *address, uint32_t active,
                    uint32_t bytes, uint32_t kind, uint64_t seed) {
    mp_access_warp(launch, pc, address, active, bytes, kind, seed);
}

void mp_host_bulk(const struct mp_launch *launch, uint64_t pc, uint64_t address, uint64_t bytes, uint32_t kind) {
    mp_bulk_warp(launch, pc, address, bytes, kind);
}

uint32_t mp_host_find(const struct mp_launch *launch, uint64_t address) { return mp_find(launch, address); }

uint32_t mp_host_width(uint32_t bytes) { return mp_width(bytes); }
