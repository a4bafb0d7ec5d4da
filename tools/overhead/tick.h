/* The clock that a program can read most cheaply, in ticks of its own length. */
#pragma once
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static unsigned long long tick(void) {
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    unsigned long long count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1000000000ull * (unsigned long long)now.tv_sec + (unsigned long long)now.tv_nsec;
#endif
}
