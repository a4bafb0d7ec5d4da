/* Slow calls on a coroutine's stack: a piece of the thread's own stack, above which a page may not be read. */
#define _GNU_SOURCE
#include "../program.h"
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, STACK = 16 * PAGE, CALLS = 20 };

static ucontext_t outside, inside;

static void slow_calls(void) {
    for (int call = 0; call < CALLS; call++) {
        if (rank == 0) usleep(20 * 1000);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void on_a_stack_of_its_own(void) {
    char room[STACK + 3 * PAGE];
    char *stack = (char *)(((uintptr_t)room + PAGE - 1) & ~(uintptr_t)(PAGE - 1)), *guard = stack + STACK;
    EXPECT(getcontext(&inside) == 0);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = STACK;
    inside.uc_link = &outside;
    makecontext(&inside, slow_calls, 0);
    EXPECT(mprotect(guard, PAGE, PROT_NONE) == 0);
    EXPECT(swapcontext(&outside, &inside) == 0);
    EXPECT(mprotect(guard, PAGE, PROT_READ | PROT_WRITE) == 0);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    on_a_stack_of_its_own();
    return MPI_Finalize();
}
