/* The device's part for the host's compiler, as tests call it. */
#include "core.h"

#include <stddef.h>

void mp_host_access(const struct mp_launch *launch, uint64_t pc, const uint64_t *address, uint32_t active,
                    uint32_t bytes, uint32_t kind, uint64_t seed) {
    mp_access_warp(launch, pc, address, active, bytes, kind, seed);
}

void mp_host_bulk(const struct mp_launch *launch, uint64_t pc, uint64_t address, uint64_t bytes, uint32_t kind) {
    mp_bulk_warp(launch, pc, address, bytes, kind);
}

uint32_t mp_host_find(const struct mp_launch *launch, uint64_t address) { return mp_find(launch, address); }

uint32_t mp_host_width(uint32_t bytes) { return mp_width(bytes); }

/* Sizes and offsets, in the order of the test that compares them. */
uint64_t mp_host_layout(uint32_t index) {
    const uint64_t layout[] = {
        sizeof(struct mp_range),   offsetof(struct mp_range, end),          offsetof(struct mp_range, id),
        sizeof(struct mp_counter), offsetof(struct mp_counter, what),       offsetof(struct mp_counter, accesses),
        offsetof(struct mp_counter, extra), sizeof(struct mp_table),        offsetof(struct mp_table, lost),
        sizeof(struct mp_window),  offsetof(struct mp_window, count),       sizeof(struct mp_launch),
        offsetof(struct mp_launch, table),  offsetof(struct mp_launch, ranges), offsetof(struct mp_launch, records),
        offsetof(struct mp_launch, range_count), offsetof(struct mp_launch, kernel),
        offsetof(struct mp_launch, threshold), offsetof(struct mp_launch, number), sizeof(struct mp_record),      offsetof(struct mp_record, what),
        offsetof(struct mp_record, lanes),   offsetof(struct mp_record, launch),
        offsetof(struct mp_record, address), sizeof(struct mp_records),     offsetof(struct mp_records, dropped),
        offsetof(struct mp_records, reserved),
    };
    return index < sizeof layout / sizeof *layout ? layout[index] : 0;
}
