// A world whose MPI_Init provides less than MPI_THREAD_MULTIPLE, and a session beside it: then
// threads call MPI at once. The arguments are the number of threads and of requests that each
// starts and completes.

#include "stub.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef word shim(word, word, word, word, word, word, word);

static shim *irecv, *wait;
static word datatype;
static int requests;

static shim *find(const char *name) {
    shim *found = (shim *)dlsym(RTLD_DEFAULT, name);
    if (found == NULL) {
        fprintf(stderr, "there is no %s\n", name);
        exit(2);
    }
    return found;
}

static void *communicate(void *unused) {
    static __thread char buffer[64], status[64];
    word request = 0;
    for (int nth = 0; nth < requests; nth++) {
        irecv((word)buffer, sizeof buffer, datatype, 0, 7, world(), (word)&request);
        wait((word)&request, (word)status, 0, 0, 0, 0, 0);
    }
    return unused;
}

int main(int count, char **arguments) {
    enum { MOST_THREADS = 64 };
    if (count != 3 || atoi(arguments[1]) > MOST_THREADS) return 2;
    int threads = atoi(arguments[1]);
    requests = atoi(arguments[2]);
    pthread_t thread[MOST_THREADS];
    irecv = find("MPI_Irecv"), wait = find("MPI_Wait");
    word session = 0;
    datatype = fresh('o');
    find("MPI_Init")(0, 0, 0, 0, 0, 0, 0);
    find("MPI_Session_init")(0, 0, (word)&session, 0, 0, 0, 0);
    for (int at = 0; at < threads; at++) pthread_create(&thread[at], NULL, communicate, NULL);
    for (int at = 0; at < threads; at++) pthread_join(thread[at], NULL);
    find("MPI_Session_finalize")((word)&session, 0, 0, 0, 0, 0, 0);
    find("MPI_Finalize")(0, 0, 0, 0, 0, 0, 0);
    return 0;
}
