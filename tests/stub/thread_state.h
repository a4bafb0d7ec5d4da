// The state of a thread that is the program's: a library between the program and MPI leaves it as
// it is, and works in whatever state the program has chosen. Here all that can be chosen is unlike
// what threads begin with.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Floating point: each exception traps, some were raised before, results are not rounded to the
// nearest, and the smallest numbers are taken for 0.
#if defined __x86_64__
struct floating_point {
    uint32_t mxcsr, x87[7];
};

static inline struct floating_point floating_point(void) {
    struct floating_point now;
    // The first masks all traps of the x87.
    __asm__ volatile("fnstenv %0\n\tfldenv %0\n\tstmxcsr %1" : "=m"(now.x87), "=m"(now.mxcsr));
    // What is left of the last instruction is no part of the state.
    memset(now.x87 + 3, 0, sizeof now.x87 - 3 * sizeof *now.x87);
    return now;
}

static inline void set_floating_point(bool unusual) {
    uint32_t mxcsr = unusual ? 0xa04c : 0x1f80, x87[7];
    // A raised exception that traps would do so at the next instruction: the one that is raised
    // does not.
    __asm__ volatile("fninit\n\tfnstenv %0" : "=m"(x87));
    if (unusual) x87[0] = 0xffff0f60, x87[1] = 0xffff0020;
    __asm__ volatile("fldenv %0\n\tldmxcsr %1" : : "m"(x87), "m"(mxcsr));
}
#elif defined __aarch64__
struct floating_point {
    uint64_t fpcr, fpsr;
};

static inline struct floating_point floating_point(void) {
    struct floating_point now;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(now.fpcr), "=r"(now.fpsr));
    return now;
}

static inline void set_floating_point(bool unusual) {
    // Of the traps a processor keeps those that it has.
    uint64_t fpcr = unusual ? 0x1409f00 : 0, fpsr = unusual ? 0x06 : 0;
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(fpcr), "r"(fpsr));
}
#endif

// No function of the C library sets it to this.
enum { UNUSUAL_ERROR = 4711 };

static struct {
    struct floating_point floating_point;
    sigset_t blocked;
    stack_t signal_stack;
} unusual;

static inline void cancelled(void *name) {
    static const char why[] = " ended its thread, which was to be cancelled\n";
    set_floating_point(false);
    fprintf(stderr, "%s%s", *(const char **)name, why);
    _exit(3);
}

// Once, at the begin of the program: the thread is cancelled as soon as it is at a place where that
// happens.
static inline void prepare_state(void) {
    static char stack[1 << 16];
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigaddset(&blocked, SIGXFSZ);
    sigprocmask(SIG_SETMASK, &blocked, &unusual.blocked);
    sigprocmask(SIG_BLOCK, NULL, &unusual.blocked);
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    sigaltstack(NULL, &unusual.signal_stack);
}

// Before a call.
static inline void set_state(void) {
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    set_floating_point(true);
    unusual.floating_point = floating_point();
    errno = UNUSUAL_ERROR;
}

// After it: returns what has changed, or NULL.
static inline const char *changed_state(void) {
    int error = errno, cancel_state, cancel_type;
    struct floating_point now = floating_point();
    set_floating_point(false);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &cancel_type);
    sigset_t blocked;
    stack_t signal_stack;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    sigaltstack(NULL, &signal_stack);
    if (error != UNUSUAL_ERROR) return "errno";
    if (memcmp(&now, &unusual.floating_point, sizeof now) != 0) return "the floating-point environment";
    if (cancel_state != PTHREAD_CANCEL_ENABLE) return "the state of cancellation";
    if (cancel_type != PTHREAD_CANCEL_DEFERRED) return "the type of cancellation";
    for (int signal = 1; signal < NSIG; signal++)
        if (sigismember(&blocked, signal) != sigismember(&unusual.blocked, signal)) return "the blocked signals";
    if (memcmp(&signal_stack, &unusual.signal_stack, sizeof signal_stack) != 0) return "the signal stack";
    return NULL;
}
