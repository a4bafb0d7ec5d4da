// No rank finds a place for the profile where it is wanted: no_place HOW OUT SEGMENTS. HOW is
//   full       OUT is a file system with hardly any room
//   read-only  OUT can be read alone
//   gone       the working directory was removed
//   nowhere    nothing can be made in the working directory, in the temporary ones and in SEGMENTS
// TEMPORARY in the environment becomes TMPDIR. Before, each rank makes COPIES duplicates of the world, and on the nth
// one broadcast of 2000 + n bytes and n barriers. Exits with 77 if it may not mount what it needs.
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPIES = 20 };

static int own_mounts(void) {
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static int small(const char *where, const char *options, unsigned long flags) {
    return mount("none", where, "tmpfs", flags, options) == 0;
}

static int read_only(const char *where) {
    return mount(where, where, NULL, MS_BIND, NULL) == 0 &&
           mount(NULL, where, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0;
}

/* Each into a directory of its own, which is removed. */
static int go(int rank) {
    char name[32], outside[36];
    snprintf(name, sizeof name, "going-%d", rank);
    snprintf(outside, sizeof outside, "../%s", name);
    return mkdir(name, 0700) == 0 && chdir(name) == 0 && rmdir(outside) == 0;
}

static int prepare(int rank, const char *how, const char *out, const char *segments) {
    if (strcmp(how, "full") == 0) return own_mounts() && small(out, "size=16k", 0);
    if (strcmp(how, "read-only") == 0) return own_mounts() && small(out, "size=64k", MS_RDONLY);
    if (strcmp(how, "gone") == 0) return go(rank);
    setenv("TMPDIR", "/proc", 1);
    return own_mounts() && chdir("/proc") == 0 && read_only(segments) && read_only("/tmp");
}

int main(int argc, char **argv) {
    static char data[4096];
    int rank, ready = 1;
    MPI_Init(&argc, &argv);
    if (argc < 4) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int n = 1; n <= COPIES; n++) {
        MPI_Comm copy;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPI_Bcast(data, 2000 + n, MPI_BYTE, 0, copy);
        for (int i = 0; i < n; i++) MPI_Barrier(copy);
    }
    if (getenv("TEMPORARY")) setenv("TMPDIR", getenv("TEMPORARY"), 1);
    ready = prepare(rank, argv[1], argv[2], argv[3]);
    MPI_Allreduce(MPI_IN_PLACE, &ready, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Finalize();
    return ready ? 0 : 77;
}
