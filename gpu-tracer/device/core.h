/* Code on the GPU for every access that a kernel makes to global memory: find the allocation that it hits,
 * and count.
 *
 * The same text compiles as CUDA C++, where a warp works together, and as C, where a loop plays the warp; the
 * tests compare the latter with a plain reference. src/generated/core.rs has the structures in Rust: after a change,
 * `cargo xtask generate`.
 *
 * Only memory that is not the device's own, or not of the process's own, is in the table of ranges: an address
 * in no range needs nothing.
 */
#ifndef MPISEE_GPU_CORE_H
#define MPISEE_GPU_CORE_H

#include <stdint.h>

#ifdef __CUDACC__
#define MP_DEVICE static __device__ __forceinline__
#else
#define MP_DEVICE static inline
#endif

/* A piece of memory: [begin, end). Ranges are disjoint and sorted. */
struct mp_range {
    uint64_t begin;
    uint64_t end;
    uint64_t id; /* from 1; never used again, also when the address is */
};

/* How many accesses an instruction made to a range. */
struct mp_counter {
    uint64_t pc;       /* the instruction's address, with bit 0 set; 0 in a free slot */
    uint64_t what;     /* see mp_what; 0 while the slot is free, or being taken */
    uint64_t accesses; /* by single lanes; of bulk copies, how many */
    uint64_t extra;    /* MP_BULK: bytes; else, if sampled, the sum of the squares of what was added at once */
};

/* The counters of a context; `slots` of mp_counter follow. */
struct mp_table {
    uint64_t slots; /* a power of two */
    uint64_t lost;  /* accesses for which there was no room */
    uint64_t mark;  /* the host's: tells the table from what was in its memory before */
    uint64_t spare;
};

/* Addresses, by the MiB: those of which the number less `first`, in 32 bits, is below `count`. Ranges are in them; of what is
 * beside one in its first or last MiB, or 2^52 bytes away, the table tells. */
struct mp_window {
    uint32_t first;
    uint32_t count;
};

#define MP_WINDOW_SHIFT 20

/* Parameters of the patches of a launch. Never changed once a launch has them. */
struct mp_launch {
    struct mp_window windows[2]; /* all ranges are in these, of which the GPU reads both at once */
    uint64_t table;       /* of mp_table */
    uint64_t ranges;      /* of the first mp_range */
    uint64_t records;     /* of mp_records; 0: accesses are counted alone */
    uint32_t range_count;
    uint32_t kernel;      /* its number, below 1 << MP_KERNEL_BITS */
    uint32_t threshold;   /* a warp is counted if its draw is below; 0: every warp */
    uint32_t number;      /* of the launch, if its accesses are recorded */
    uint64_t spare;       /* a launch begins at a multiple of 16 */
};

/* Accesses of the lanes of a warp at once, in one range. */
struct mp_record {
    uint64_t pc;          /* as in mp_counter; written last, 0 until then */
    uint64_t what;        /* as in mp_counter */
    uint32_t lanes;       /* a mask; of a bulk copy 1 */
    uint32_t launch;      /* its number */
    uint64_t address[32]; /* of these lanes; of a bulk copy its address and its bytes */
};

/* The records of a context: two halves, each of `capacity` mp_record, follow. One is read and emptied while the other
 * takes what comes. */
struct mp_records {
    uint64_t capacity;
    uint64_t dropped;     /* records for which there was no room */
    uint64_t reserved[2]; /* of a half; where it is as many as fit, or more, the half takes no more */
    uint64_t emptied[2];  /* the host's: how often it has emptied a half */
};

/* Kinds of access. */
#define MP_LOAD 0u
#define MP_STORE 1u
#define MP_ATOMIC 2u

/* Kinds of access, as in sanitizer_patching.h. */
#define MP_READS 0x1u
#define MP_WRITES 0x2u
#define MP_SYSTEM_ATOMIC 0x4u
#define MP_PREFETCHES 0x8u

/* Widths are kept as powers of two; this is none, but a copy of any length, with its bytes in `extra`. */
#define MP_BULK 7u

#define MP_KERNEL_BITS 20
/* Slots that are looked at before an access is given up as lost. */
#define MP_MOST_PROBES 128u

/* A word of device memory that threads share: it only has to be read and written whole. On the GPU they say
 * that the memory is global; of a pointer that might be to shared or local memory each atomic has a form for all three. */
#ifdef __CUDACC__

MP_DEVICE uint64_t mp_look(const uint64_t *word) {
    uint64_t value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(word)) : "memory");
    return value;
}

MP_DEVICE void mp_add(uint64_t *word, uint64_t value) {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(word)), "l"(value) : "memory");
}

MP_DEVICE uint64_t mp_next(uint64_t *word) {
    uint64_t before;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], 1;"
                 : "=l"(before) : "l"(__cvta_generic_to_global(word)) : "memory");
    return before;
}

MP_DEVICE uint64_t mp_claim(uint64_t *word, uint64_t value) {
    uint64_t before;
    asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], 0, %2;"
                 : "=l"(before) : "l"(__cvta_generic_to_global(word)), "l"(value) : "memory");
    return before;
}

#else

MP_DEVICE uint64_t mp_look(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }

MP_DEVICE void mp_add(uint64_t *word, uint64_t value) { __atomic_fetch_add(word, value, __ATOMIC_RELAXED); }

/* Adds one; what was there before. */
MP_DEVICE uint64_t mp_next(uint64_t *word) { return __atomic_fetch_add(word, 1, __ATOMIC_RELAXED); }

/* Puts `value` into the word if that is 0; what was there before. */
MP_DEVICE uint64_t mp_claim(uint64_t *word, uint64_t value) {
    uint64_t expected = 0;
    __atomic_compare_exchange_n(word, &expected, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

#endif

/* D. Stafford's mix 13 of the 64-bit finalizer of MurmurHash3. */
MP_DEVICE uint64_t mp_mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

/* Range, kernel, kind and width in one word, which is never 0. */
MP_DEVICE uint64_t mp_what(uint32_t range, uint32_t kernel, uint32_t kind, uint32_t width) {
    return 1ull << 63 | (uint64_t)width << 56 | (uint64_t)kind << 52 | (uint64_t)kernel << 32 | range;
}

/* The code of a width in bytes. */
MP_DEVICE uint32_t mp_width(uint32_t bytes) {
    if (bytes == 0 || bytes >= 1u << MP_BULK || (bytes & (bytes - 1)) != 0) {
        return MP_BULK;
    }
#ifdef __CUDACC__
    return (uint32_t)__ffs(bytes) - 1;
#else
    return (uint32_t)__builtin_ctz(bytes);
#endif
}

/* The kind of an access. An atomic reads and writes; only one of the whole system says so itself. */
MP_DEVICE uint32_t mp_kind(uint32_t flags) {
    const uint32_t both = MP_READS | MP_WRITES;
    if ((flags & both) == both || (flags & MP_SYSTEM_ATOMIC)) {
        return MP_ATOMIC;
    }
    return flags & MP_WRITES ? MP_STORE : MP_LOAD;
}

/* Returns whether an address may be in a range. Most accesses get no further, so it is short. */
MP_DEVICE int mp_is_near(const struct mp_launch *launch, uint64_t address) {
    uint32_t place = (uint32_t)(address >> MP_WINDOW_SHIFT);
#ifdef __CUDACC__
    uint4 windows = __ldg((const uint4 *)launch->windows);
    return place - windows.x < windows.y || place - windows.z < windows.w;
#else
    const struct mp_window *windows = launch->windows;
    return place - windows[0].first < windows[0].count || place - windows[1].first < windows[1].count;
#endif
}

/* The range that holds the address, or 0. */
MP_DEVICE uint32_t mp_find(const struct mp_launch *launch, uint64_t address) {
    const struct mp_range *ranges = (const struct mp_range *)(uintptr_t)launch->ranges;
    uint32_t below = 0, above = launch->range_count; /* the first range that begins later is in [below, above] */
    while (below < above) {
        uint32_t middle = below + (above - below) / 2;
        if (ranges[middle].begin <= address) {
            below = middle + 1;
        } else {
            above = middle;
        }
    }
    return below > 0 && address < ranges[below - 1].end ? (uint32_t)ranges[below - 1].id : 0;
}

/* Where the search for a counter begins: a hash of 32 bits, since a table has far fewer slots and the GPU multiplies by those.
 * The constants are those of MurmurHash3. */
MP_DEVICE uint32_t mp_slot(uint64_t pc, uint64_t what) {
    uint32_t hash = (uint32_t)(pc >> 4) * 0xcc9e2d51u;
    hash = (hash ^ (uint32_t)what ^ hash >> 15) * 0x85ebca6bu;
    hash = (hash ^ (uint32_t)(what >> 32) ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

/* The counter of a key, made if there is none yet; null if there is no room.
 *
 * A word of a key is written once and never changes. So all who look for one key skip the same slots, whose keys
 * are others', and stop at the same one; nobody waits for anybody. A slot of which only the first word is written
 * is taken by whoever writes the second. */
MP_DEVICE struct mp_counter *mp_counter_of(struct mp_table *table, uint64_t pc, uint64_t what) {
    struct mp_counter *counters = (struct mp_counter *)(table + 1);
    uint32_t mask = (uint32_t)table->slots - 1;
    uint32_t at = mp_slot(pc, what);
    uint32_t probe;
    pc |= 1;
    for (probe = 0; probe < MP_MOST_PROBES && probe <= mask; probe++, at++) {
        struct mp_counter *counter = &counters[at & mask];
        uint64_t there = mp_look(&counter->pc);
        if (there == 0) {
            there = mp_claim(&counter->pc, pc);
        }
        if (there != 0 && there != pc) {
            continue;
        }
        there = mp_look(&counter->what);
        if (there == 0) {
            there = mp_claim(&counter->what, what);
        }
        if (there == 0 || there == what) {
            return counter;
        }
    }
    return 0;
}

/* Counts `accesses` lanes of a warp, or one bulk copy. */
MP_DEVICE void mp_count(const struct mp_launch *launch, uint64_t pc, uint64_t what, uint32_t accesses, uint64_t extra) {
    struct mp_table *table = (struct mp_table *)(uintptr_t)launch->table;
    struct mp_counter *counter = mp_counter_of(table, pc, what);
    if (!counter) {
        mp_add(&table->lost, accesses);
        return;
    }
    mp_add(&counter->accesses, accesses);
    if (extra) {
        mp_add(&counter->extra, extra);
    }
}

/* Sum that the lanes of a warp add to `extra`. */
MP_DEVICE uint64_t mp_extra(const struct mp_launch *launch, uint32_t width, uint32_t lanes, uint32_t bytes) {
    if (width == MP_BULK) {
        return (uint64_t)lanes * bytes;
    }
    return launch->threshold ? (uint64_t)lanes * lanes : 0;
}

/* Room for a record, or null. Nobody waits: what finds both halves full is dropped. A half that is full, and of which
 * every record is written, is nobody's but the host's until that sets `reserved` to 0. */
MP_DEVICE struct mp_record *mp_reserve(const struct mp_launch *launch) {
    struct mp_records *records = (struct mp_records *)(uintptr_t)launch->records;
    struct mp_record *first = (struct mp_record *)(records + 1);
    uint32_t half;
    for (half = 0; half < 2; half++) {
        if (mp_look(&records->reserved[half]) < records->capacity) {
            uint64_t at = mp_next(&records->reserved[half]);
            if (at < records->capacity) {
                return first + half * records->capacity + at;
            }
        }
    }
    mp_add(&records->dropped, 1);
    return 0;
}

/* The fields before the addresses, but for the one that marks a record as whole. */
MP_DEVICE void mp_begin(const struct mp_launch *launch, struct mp_record *record, uint64_t what, uint32_t lanes) {
    record->what = what;
    record->lanes = lanes;
    record->launch = launch->number;
}

/* After all that was written of the record. */
MP_DEVICE void mp_complete(struct mp_record *record, uint64_t pc) {
#ifdef __CUDACC__
    __threadfence();
    *(volatile uint64_t *)&record->pc = pc | 1;
#else
    __atomic_store_n(&record->pc, pc | 1, __ATOMIC_RELEASE);
#endif
}

/* A bulk copy, in a range. */
MP_DEVICE void mp_count_bulk(const struct mp_launch *launch, uint64_t pc, uint32_t range, uint64_t address,
                             uint64_t bytes, uint32_t kind) {
    uint64_t what = mp_what(range, launch->kernel, kind, MP_BULK);
    struct mp_record *record = launch->records ? mp_reserve(launch) : 0;
    mp_count(launch, pc, what, 1, bytes);
    if (record) {
        mp_begin(launch, record, what, 1);
        record->address[0] = address;
        record->address[1] = bytes;
        mp_complete(record, pc);
    }
}

/* Returns whether a warp is counted: once in so many, decided before the look-up, so that what is left out costs little.
 * Every warp has the same chance, so that the counted ones times n are an estimate without bias. */
MP_DEVICE int mp_is_drawn(const struct mp_launch *launch, uint64_t seed) {
    return launch->threshold == 0 || (uint32_t)(mp_mix(seed) >> 32) < launch->threshold;
}

#ifdef __CUDACC__

MP_DEVICE uint32_t mp_lane(void) {
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

/* Writes down what the lanes of `same`, of which this is one, access. */
MP_DEVICE void mp_record_lane(const struct mp_launch *launch, uint64_t pc, uint64_t what, uint64_t address,
                              uint32_t same) {
    uint32_t first = (uint32_t)__ffs(same) - 1;
    unsigned long long at = 0;
    if (mp_lane() == first) {
        struct mp_record *record = mp_reserve(launch);
        if (record) {
            mp_begin(launch, record, what, same);
        }
        at = (unsigned long long)record;
    }
    at = __shfl_sync(same, at, first);
    if (at) {
        ((struct mp_record *)at)->address[mp_lane()] = address;
        __threadfence();
        __syncwarp(same);
        if (mp_lane() == first) {
            mp_complete((struct mp_record *)at, pc);
        }
    }
}

/* One lane's access; all lanes of the warp that make it are here. Those that are near nothing leave at once; the others
 * stay together. `has_more` says that the launch may be sampled or recorded, and that a width may be any number: what is
 * without is shorter, and has less to save. */
MP_DEVICE void mp_access(const struct mp_launch *launch, uint64_t pc, uint64_t address, uint32_t bytes, uint32_t kind,
                         int has_more) {
    if (!launch || !mp_is_near(launch, address)) {
        return;
    }
    uint32_t active = __activemask();
    if (has_more && launch->threshold) {
        /* The clock and the address of the first lane tell one warp's access from all others. */
        int drawn = mp_is_drawn(launch, clock64() ^ mp_mix(pc ^ address));
        if (!__shfl_sync(active, drawn, __ffs(active) - 1)) {
            return;
        }
    }
    uint32_t range = mp_find(launch, address);
    uint32_t remote = __ballot_sync(active, range != 0);
    if (range == 0) {
        return;
    }
    /* Lanes at other instructions could be among these; within 4 GiB of code the low half tells them apart. */
    uint32_t same = __match_any_sync(remote, (unsigned long long)(uint32_t)pc << 32 | range);
    uint32_t width = mp_width(bytes);
    uint64_t what = mp_what(range, launch->kernel, kind, width);
    if (has_more && launch->records) {
        mp_record_lane(launch, pc, what, address, same);
    }
    if (mp_lane() == (uint32_t)__ffs(same) - 1) {
        uint32_t lanes = __popc(same);
        mp_count(launch, pc, what, lanes, has_more ? mp_extra(launch, width, lanes, bytes) : 0);
    }
}

/* A copy of many bytes, which a warp makes once. It is counted in any case: such copies are few and large. */
MP_DEVICE void mp_bulk(const struct mp_launch *launch, uint64_t pc, uint64_t address, uint64_t bytes, uint32_t kind) {
    if (!launch || !mp_is_near(launch, address) || mp_lane() != (uint32_t)__ffs(__activemask()) - 1) {
        return;
    }
    uint32_t range = mp_find(launch, address);
    if (range != 0) {
        mp_count_bulk(launch, pc, range, address, bytes, kind);
    }
}

#else

/* A warp's access: the lanes of which the bit in `active` is set, each with its address. */
MP_DEVICE void mp_access_warp(const struct mp_launch *launch, uint64_t pc, const uint64_t address[32], uint32_t active,
                              uint32_t bytes, uint32_t kind, uint64_t seed) {
    uint32_t range[32] = {0}, lane, other;
    if (!launch || !mp_is_drawn(launch, seed)) {
        return;
    }
    for (lane = 0; lane < 32; lane++) {
        if (active >> lane & 1 && mp_is_near(launch, address[lane])) {
            range[lane] = mp_find(launch, address[lane]);
        }
    }
    for (lane = 0; lane < 32; lane++) {
        uint32_t target = range[lane], lanes = 0, same = 0;
        if (target == 0) {
            continue;
        }
        for (other = lane; other < 32; other++) {
            if (range[other] == target) {
                range[other] = 0;
                same |= 1u << other;
                lanes++;
            }
        }
        uint64_t what = mp_what(target, launch->kernel, kind, mp_width(bytes));
        struct mp_record *record = launch->records ? mp_reserve(launch) : 0;
        if (record) {
            mp_begin(launch, record, what, same);
            for (other = 0; other < 32; other++) {
                record->address[other] = address[other];
            }
            mp_complete(record, pc);
        }
        mp_count(launch, pc, what, lanes, mp_extra(launch, mp_width(bytes), lanes, bytes));
    }
}

/* A warp's bulk copy. */
MP_DEVICE void mp_bulk_warp(const struct mp_launch *launch, uint64_t pc, uint64_t address, uint64_t bytes,
                            uint32_t kind) {
    uint32_t range = launch && mp_is_near(launch, address) ? mp_find(launch, address) : 0;
    if (range != 0) {
        mp_count_bulk(launch, pc, range, address, bytes, kind);
    }
}

#endif

#endif
