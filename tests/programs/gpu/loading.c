/* loading LIBRARY: a thread loads a library that needs a driver and another library, whose constructor runs before the driver's
 * and waits until main has communicated, from ever new places. 2 ranks. */
#include "../program.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static char words[4096];
static atomic_int is_loaded;
/* The constructor reads it. */
volatile int calls_are_made;

static void *load(void *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "not so: %s\n", dlerror());
        exit(8);
    }
    is_loaded = 1;
    return library;
}

#define ONCE usleep(2000), MPI_Allreduce(MPI_IN_PLACE, words, 3, MPI_BYTE, MPI_BOR, MPI_COMM_SELF);
#define EIGHT ONCE ONCE ONCE ONCE ONCE ONCE ONCE ONCE

int main(int argc, char **argv) {
    EXPECT(argc == 2);
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pthread_t thread;
    void *library;
    EXPECT(!pthread_create(&thread, NULL, load, argv[1]));
    EIGHT EIGHT EIGHT EIGHT
    EXPECT(!is_loaded);
    calls_are_made = 1;
    pthread_join(thread, &library);
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    void (*pretend)(void *, size_t, unsigned, unsigned) = (void (*)(void *, size_t, unsigned, unsigned))dlsym(library, "pretend");
    EXPECT(init && pretend && !init(0));
    EIGHT
    pretend(words, sizeof words, 2, 0);
    for (int i = 0; i < 7; i++) {
        MPI_Bcast(words, 53, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
    /* The driver stays, as it was initialised; nobody calls what has gone. */
    dlclose(library);
    MPI_Bcast(words, 59, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
