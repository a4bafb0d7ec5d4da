/* Calls the function gather_in_library of a library that is opened as the program runs, and whose name means nothing later. Arguments: how
 * it is opened, and its path:
 *   path        by the path
 *   relative    by its file in its folder, from which the program goes away before it calls MPI
 *   descriptor  by that of a file, which is closed before it calls MPI
 *   memory      by that of a copy in memory, likewise
 *   replaced    by the path, at which there is a copy of the file when it calls MPI */
#define _GNU_SOURCE
#include "../program.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

static void *opened_relative(const char *path) {
    char folder[PATH_MAX], name[PATH_MAX], before[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    EXPECT(slash != NULL);
    snprintf(name, sizeof name, ".%s", path + (slash - folder));
    *slash = 0;
    EXPECT(getcwd(before, sizeof before) != NULL && chdir(folder) == 0);
    void *library = dlopen(name, RTLD_NOW);
    EXPECT(chdir(before) == 0);
    return library;
}

static void *opened_by(int descriptor) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    void *library = dlopen(name, RTLD_NOW);
    EXPECT(close(descriptor) == 0);
    return library;
}

static int copied(const char *path, int to) {
    int from = open(path, O_RDONLY);
    EXPECT(from >= 0 && to >= 0);
    while (sendfile(to, from, NULL, 1 << 20) > 0) {
    }
    EXPECT(close(from) == 0);
    return to;
}

static void *replaced(const char *path) {
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s.%d", path, rank);
    void *library = opened_relative(path);
    EXPECT(close(copied(path, open(name, O_WRONLY | O_CREAT, 0755))) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT(rename(name, path) == 0);
    return library;
}

static void *opened(const char *how, const char *path) {
    if (strcmp(how, "relative") == 0) return opened_relative(path);
    if (strcmp(how, "descriptor") == 0) return opened_by(open(path, O_RDONLY));
    if (strcmp(how, "memory") == 0) return opened_by(copied(path, memfd_create("plugin", 0)));
    if (strcmp(how, "replaced") == 0) return replaced(path);
    return dlopen(path, RTLD_NOW);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(argc == 3);
    void *library = opened(argv[1], argv[2]);
    EXPECT(library != NULL);
    int (*gather)(void) = (int (*)(void))dlsym(library, "gather_in_library");
    EXPECT(gather != NULL);
    for (int time = 0; time < 10; time++) EXPECT(gather() == size * (size - 1) / 2);
    return MPI_Finalize();
}
