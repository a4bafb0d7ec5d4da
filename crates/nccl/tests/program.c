/* Loads the library that the last argument names. `close`: with NCCL for everybody, and closes both, several times. `wait`: after the first call of NCCL,
 * which this program is linked with; the library waits for another. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int close_again(const char *library) {
    for (int round = 0; round < 3; round++) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
        if (!handle) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        int (*run)(void) = NULL;
        *(void **)&run = dlsym(handle, "run");
        if (run()) {
            return 2;
        }
        dlclose(handle);
        /* What comes next is elsewhere. */
        for (int page = 0; page < 64; page++) {
            mmap(NULL, 4096, page % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        }
    }
    return 0;
}

static int wait_for(const char *library) {
    int (*end)(void) = NULL;
    *(void **)&end = dlsym(RTLD_DEFAULT, "ncclGroupEnd");
    if (!end || end()) {
        return 3;
    }
    return dlopen(library, RTLD_NOW) ? 0 : 4;
}

int main(int count, char **arguments) {
    alarm(10);
    if (count < 3) {
        return 5;
    }
    return strcmp(arguments[1], "close") ? wait_for(arguments[2]) : close_again(arguments[2]);
}
