/* A library whose constructor waits for a thread that makes the first call of a function of NCCL: whoever loads the library has the loader's
 * lock meanwhile. */
#include <pthread.h>
#include <stddef.h>

int ncclGroupStart(void);

static void *call(void *unused) { return ncclGroupStart() ? unused : NULL; }

__attribute__((constructor)) static void begin(void) {
    pthread_t other;
    pthread_create(&other, NULL, call, NULL);
    pthread_join(other, NULL);
}
