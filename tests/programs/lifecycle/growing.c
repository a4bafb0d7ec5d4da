/* Makes its counters grow under trouble: growing TROUBLE END. After the first calls there is trouble: `fill PATH` (the
 * file system gets full), `limit` (files may not grow), `timer` (signals interrupt whatever can be interrupted), `space`
 * (little address space, from before MPI_Init on), `mask` (files that are made have no rights), `none`. Then come many
 * communicators, each with calls of its own. END is `finalize` or `kill`.
 */
#include "program.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { COMMS = 150, KINDS = 14 };

static void on_alarm(int number) { (void)number; }

static void fill(const char *path) {
    static const char block[4096];
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    EXPECT(file >= 0);
    while (write(file, block, sizeof block) > 0) {}
    EXPECT(errno == ENOSPC);
    while (write(file, block, 1) > 0) {}
    close(file);
}

static void limit(int resource, rlim_t most) {
    struct rlimit both = {most, most};
    EXPECT(setrlimit(resource, &both) == 0);
}

static char out[1 << KINDS], in[1 << KINDS];

/* Before the trouble and after it at the same place of the program, for which there is a counter. */
static __attribute__((noinline)) void reduce_in_world(void) {
    MPI_Allreduce(out, in, 359, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    const char *trouble = argv[1], *end = argv[argc - 1];
    if (strcmp(trouble, "space") == 0) limit(RLIMIT_AS, (rlim_t)1 << 30);
    begin(&argc, &argv);
    reduce_in_world();
    if (strcmp(trouble, "fill") == 0 && rank == 0) fill(argv[2]);
    if (strcmp(trouble, "mask") == 0) umask(0777);
    if (strcmp(trouble, "limit") == 0) limit(RLIMIT_FSIZE, 1000);
    if (strcmp(trouble, "timer") == 0) {
        struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
        struct itimerval often = {{0, 300}, {0, 300}};
        EXPECT(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int k = 0; k < COMMS; k++) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm);
        for (int kind = 0; kind < KINDS; kind++) MPI_Bcast(out, 1 << kind, MPI_BYTE, 0, comm);
        MPI_Allreduce(out, in, k + 1, MPI_BYTE, MPI_BOR, comm);
        MPI_Comm_free(&comm);
    }
    reduce_in_world();
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    if (rank == 0) {
        printf("through\n");
        fflush(stdout);
    }
    if (strcmp(end, "kill") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        raise(SIGKILL);
    }
    MPI_Finalize();
    return 0;
}
