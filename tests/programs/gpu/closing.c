/* closing DRIVER: a thread opens a driver and closes it without initialising it, again and again, as libraries do that look for GPUs;
 * meanwhile main communicates. 1 rank. */
#include "../program.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_int ends;

static void *probe(void *name) {
    int times = 0;
    for (; !ends || times < 500; times++) {
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (!library || !dlsym(library, "cuInit") || dlclose(library)) {
            fprintf(stderr, "not so: %s\n", dlerror());
            exit(8);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    EXPECT(argc == 2);
    int provided, one = 1, sum;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pthread_t thread;
    EXPECT(!pthread_create(&thread, NULL, probe, argv[1]));
    for (int i = 0; i < 200000; i++) {
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    ends = 1;
    pthread_join(thread, NULL);
    MPI_Finalize();
    return 0;
}
