/* Calls the function gather_in_library of a library that is opened as the program runs, and whose name means nothing later. Arguments: how
 * it is opened, and its path:
 *   path        by the path
 *   relative    by its file in its folder, from which the program goes away before it calls MPI
 *   descriptor  by that of a file, which is closed before it calls MPI
 *   memory      by that of a copy in memory, likewise */
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

static int copied(const char *path) {
    int from = open(path, O_RDONLY), to = memfd_create("plugin", 0);
    EXPECT(from >= 0 && to >= 0);
    while (sendfile(to, from, NULL, 1 << 20) > 0) {
    }
    EXPECT(close(from) == 0);
    return to;
}

static void *opened(const char *how, const char *path) {
    if (strcmp(how, "relative") == 0) return opened_relative(path);
    if (strcmp(how, "descriptor") == 0) return opened_by(open(path, O_RDONLY));
    if (strcmp(how, "memory") == 0) return opened_by(copied(path));
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
