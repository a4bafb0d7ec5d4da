/* Calls MPI from code that is made as the program runs, by 100 000 pieces of it; one process. Prints nanoseconds of a first call from
 * each, and of a further one. */
#define _GNU_SOURCE
#include "../program.h"
#include <sys/mman.h>
#include <time.h>

enum { PIECES = 100 * 1000, BYTES = 32 };

typedef int (*iprobe)(int, int, MPI_Comm, int *, MPI_Status *);

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
#if defined(__x86_64__)
    /* sub $8, %rsp; movabs $MPI_Iprobe, %rax; call *%rax; add $8, %rsp; ret */
    unsigned char code[] = {0x48, 0x83, 0xec, 8, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x48, 0x83, 0xc4, 8, 0xc3};
    iprobe real = MPI_Iprobe;
    memcpy(code + 6, &real, sizeof real);
    const int access = PROT_READ | PROT_WRITE | PROT_EXEC;
    char *pieces = mmap(NULL, (size_t)BYTES * PIECES, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(pieces != MAP_FAILED);
    for (int piece = 0; piece < PIECES; piece++) memcpy(pieces + (size_t)BYTES * (size_t)piece, code, sizeof code);
    double took_ns[2];
    for (int round = 0; round < 2; round++) {
        const double start_ns = now_ns();
        for (int piece = 0; piece < PIECES; piece++) {
            int flag;
            ((iprobe)(pieces + (size_t)BYTES * (size_t)piece))(0, 1, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
        }
        took_ns[round] = (now_ns() - start_ns) / PIECES;
    }
    printf("first %.0f further %.0f\n", took_ns[0], took_ns[1]);
#endif
    return MPI_Finalize();
}
