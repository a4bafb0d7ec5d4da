/* Work that takes a known time, and by how much it took longer: a machine that does other things makes ranks late, which is no fault
 * of the program, and which a profiler finds. */
#pragma once
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Waking up takes some time. */
static const double UNDISTURBED_S = 1e-3;
static double disturbed_s;

static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static inline void note_from(double begin_s, double meant_s) {
    double longer_s = now() - begin_s - meant_s;
    if (longer_s > UNDISTURBED_S) disturbed_s += longer_s;
}

/* On a core. */
static inline void compute(double s) {
    double begin_s = now();
    while (now() - begin_s < s) {}
    note_from(begin_s, s);
}

/* Without one. */
static inline void rest(double s) {
    double begin_s = now();
    usleep(1e6 * s);
    note_from(begin_s, s);
}

/* Every rank prints its own, in seconds. */
static inline void tell_disturbance(void) {
    printf("disturbed %.6f\n", disturbed_s);
    fflush(stdout);
}
