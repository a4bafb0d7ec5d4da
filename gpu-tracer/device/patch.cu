/* Patches: functions that NVIDIA's Sanitizer API calls on the GPU before an instruction. Each says what the instruction
 * does, core.h does the rest.
 *
 * Compiled by `cargo xtask gpu`, as sanitizer_patching.h wants it.
 */
#include "core.h"

#include <sanitizer_patching.h>

#define PATCH extern "C" __device__ __noinline__ SanitizerPatchResult

static_assert(MP_READS == SANITIZER_MEMORY_DEVICE_FLAG_READ, "as in the header");
static_assert(MP_WRITES == SANITIZER_MEMORY_DEVICE_FLAG_WRITE, "as in the header");
static_assert(MP_SYSTEM_ATOMIC == SANITIZER_MEMORY_DEVICE_FLAG_ATOMSYS, "as in the header");
static_assert(MP_PREFETCHES == SANITIZER_MEMORY_DEVICE_FLAG_PREFETCH, "as in the header");

/* Loads, stores, atomics and reductions. */
PATCH mpisee_access(void *userdata, uint64_t pc, void *address, uint32_t bytes, uint32_t flags, const void *) {
    if (!(flags & MP_PREFETCHES)) {
        mp_access((const mp_launch *)userdata, pc, (uint64_t)address, bytes, mp_kind(flags), 0);
    }
    return SANITIZER_PATCH_SUCCESS;
}

/* cp.async, from global to shared memory, by each lane. */
PATCH mpisee_copy(void *userdata, uint64_t pc, void *source, uint32_t, uint32_t bytes) {
    mp_access((const mp_launch *)userdata, pc, (uint64_t)source, bytes, MP_LOAD, 0);
    return SANITIZER_PATCH_SUCCESS;
}

/* The same two where warps are drawn, or records are written. */
PATCH mpisee_access_more(void *userdata, uint64_t pc, void *address, uint32_t bytes, uint32_t flags, const void *) {
    if (!(flags & MP_PREFETCHES)) {
        mp_access((const mp_launch *)userdata, pc, (uint64_t)address, bytes, mp_kind(flags), 1);
    }
    return SANITIZER_PATCH_SUCCESS;
}

PATCH mpisee_copy_more(void *userdata, uint64_t pc, void *source, uint32_t, uint32_t bytes) {
    mp_access((const mp_launch *)userdata, pc, (uint64_t)source, bytes, MP_LOAD, 1);
    return SANITIZER_PATCH_SUCCESS;
}

/* cp.async.bulk, from global to shared memory: in the low half of `data`, blocks of 16 bytes. */
PATCH mpisee_bulk_load(void *userdata, uint64_t pc, uint64_t source, uint32_t, uint32_t, uint32_t data, uint32_t) {
    mp_bulk((const mp_launch *)userdata, pc, source, 16ull * (data & 0xffff), MP_LOAD);
    return SANITIZER_PATCH_SUCCESS;
}

/* cp.async.bulk, from shared to global memory. */
PATCH mpisee_bulk_store(void *userdata, uint64_t pc, uint64_t target, uint32_t, uint32_t blocks) {
    mp_bulk((const mp_launch *)userdata, pc, target, 16ull * blocks, MP_STORE);
    return SANITIZER_PATCH_SUCCESS;
}

/* cp.reduce.async.bulk, from shared to global memory. */
PATCH mpisee_bulk_reduce(void *userdata, uint64_t pc, uint64_t target, uint32_t, uint32_t blocks) {
    mp_bulk((const mp_launch *)userdata, pc, target, 16ull * blocks, MP_ATOMIC);
    return SANITIZER_PATCH_SUCCESS;
}
