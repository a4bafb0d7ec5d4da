/* CLOCK_MONOTONIC jumps by so many seconds in the middle of a region, as after a virtual machine was restored; the time-stamp
 * counter does not. With `back` it jumps back in the next region, so that both clocks agree again at the end.
 * Arguments: seconds, `back` or `stay`. */
#include <mpisee.h>
#include "program.h"
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile long ahead_s;

int clock_gettime(clockid_t id, struct timespec *time) {
    int code = (int)syscall(SYS_clock_gettime, id, time);
    if (id == CLOCK_MONOTONIC) time->tv_sec += ahead_s;
    return code;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
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
