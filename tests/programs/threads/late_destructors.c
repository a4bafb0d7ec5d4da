/* Ends of threads call MPI: destructors of keys that were made before and behind those of a profiler's, in two rounds. */
#include "program.h"
#include <pthread.h>

static pthread_key_t before, behind;

static void call(int bytes) {
    static char data[1000];
    MPI_Bcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void before_ends(void *bytes) {
    call((int)(size_t)bytes);
}

/* In its first round it asks for a second one. */
static void behind_ends(void *bytes) {
    call((int)(size_t)bytes);
    if ((size_t)bytes < 640) pthread_setspecific(behind, (void *)((size_t)bytes + 10));
}

static void *first(void *argument) {
    call(601);
    return argument;
}

static void *second(void *argument) {
    call(611);
    pthread_setspecific(before, (void *)621);
    pthread_setspecific(behind, (void *)631);
    return argument;
}

static void run(void *(*work)(void *)) {
    pthread_t worker;
    EXPECT(pthread_create(&worker, NULL, work, NULL) == 0);
    pthread_join(worker, NULL);
}

int main(int argc, char **argv) {
    int provided;
    EXPECT(pthread_key_create(&before, before_ends) == 0);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    EXPECT(provided == MPI_THREAD_MULTIPLE);
    run(first);
    EXPECT(pthread_key_create(&behind, behind_ends) == 0);
    for (int i = 0; i < 50; i++) run(second);
    MPI_Finalize();
    return 0;
}
