/* CLOCK_MONOTONIC jumps by so many seconds in the middle of a region, as after a virtual machine was restored; the time-stamp
 * counter does not. With `back` it jumps back in the next region, so that both clocks agree again at the end.
 * With `fast` it does not jump: it runs faster by so many percent from the start, as under libfaketime.
 * Arguments: seconds or percent, `back`, `stay` or `fast`. */
#include <mpisee.h>
#include "program.h"
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile long ahead_s;
static long percent, first_ns;

__attribute__((constructor)) static void set_rate(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[2], "fast")) percent = atol(argv[1]);
}

int clock_gettime(clockid_t id, struct timespec *time) {
    int code = (int)syscall(SYS_clock_gettime, id, time);
    if (id != CLOCK_MONOTONIC) return code;
    time->tv_sec += ahead_s;
    if (percent) {
        long ns = time->tv_sec * 1000000000 + time->tv_nsec;
        if (!first_ns) first_ns = ns;
        ns += (ns - first_ns) * percent / 100;
        time->tv_sec = ns / 1000000000;
        time->tv_nsec = ns % 1000000000;
    }
    return code;
}

static void run_with_fast_clock(void) {
    for (int i = 0; i < 20; i++) {
        mpisee_region_begin("short");
        usleep(10000);
        MPI_Barrier(MPI_COMM_WORLD);
        mpisee_region_end();
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    if (percent) {
        run_with_fast_clock();
        MPI_Finalize();
        return 0;
    }
    mpisee_region_begin("jumps");
    MPI_Barrier(MPI_COMM_WORLD);
    ahead_s = atol(argv[1]);
    mpisee_region_end();
    mpisee_region_begin("jumps back");
    if (!strcmp(argv[2], "back")) ahead_s = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    mpisee_region_end();
    MPI_Finalize();
    return 0;
}
