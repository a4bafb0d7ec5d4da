/* Functions that NVBit calls on the GPU before an instruction; nvbit/tool.cpp has the arguments. core.h does the rest.
 *
 * Compiled by `cargo xtask gpu`, as NVBit wants what it inserts.
 */
#include "core.h"

#define INSERTED extern "C" __device__ __noinline__ void

/* Loads, stores, atomics and reductions, and cp.async, by each lane for which the instruction's predicate holds. */
INSERTED mpisee_nvbit_access(int32_t predicate, uint64_t launch, uint64_t pc, uint32_t kind, uint64_t address,
                             uint32_t bytes) {
    if (predicate) {
        mp_access((const mp_launch *)launch, pc, address, bytes, kind, 1);
    }
}

/* cp.async.bulk and cp.reduce.async.bulk: in the low half of `blocks`, blocks of 16 bytes. */
INSERTED mpisee_nvbit_bulk(int32_t predicate, uint64_t launch, uint64_t pc, uint32_t kind, uint32_t low, uint32_t high,
                           uint32_t blocks) {
    if (predicate) {
        mp_bulk((const mp_launch *)launch, pc, (uint64_t)high << 32 | low, 16ull * (blocks & 0xffff), kind);
    }
}
