/* nccl_alone [killed|first-killed N|group|threads|stack DRIVER|after N|child|fork|exec PROGRAM|last-exec PROGRAM|mpi LIBRARY]:
 * communicates by a pretended NCCL without MPI, as the rank that the launcher's variables say, or the program's own. The last rank is
 * killed, or waits before it ends until there are N files called done.*, or waits so and the first is killed; or each has two devices,
 * whose communicators are made in a group; or its first communicators are made by several threads at once, or by one with the smallest
 * stack that there may be, while CUDA's driver is there; or another program takes its place, or that of the last rank; or MPI is loaded
 * and initialised, or a child comes and exits without what fork() does, after some calls; or one comes by fork() and communicates by
 * itself. */
#include "pretended_nccl.h"
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NCCL(call) \
    if ((call) != ncclSuccess) { \
        fprintf(stderr, "%s failed\n", #call); \
        return 1; \
    }
static char from[4096], to[4096];

static int number(const char *name, int unless_set) {
    const char *text = getenv(name);
    return text ? atoi(text) : unless_set;
}

static void wait_for(const char *files, int count) {
    for (int found = 0; found < count; usleep(1000)) {
        glob_t names;
        found = glob(files, 0, NULL, &names) ? 0 : (int)names.gl_pathc;
        globfree(&names);
    }
}

/* NCCL's ranks wait for each other when a communicator is made. */
static void meet(int rank, int size) {
    char name[32];
    snprintf(name, sizeof name, "made.%d", rank);
    FILE *file = fopen(name, "w");
    if (file) {
        fclose(file);
    }
    wait_for("made.*", size);
}

/* The first calls of NCCL are those of the group. */
static int two_devices(ncclUniqueId id, int rank, int size) {
    ncclComm_t comms[2] = {(ncclComm_t)8, (ncclComm_t)8};
    NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++) {
        NCCL(ncclCommInitRank(&comms[i], 2 * size, id, 2 * rank + i));
    }
    NCCL(ncclGroupEnd());
    meet(rank, size);
    for (int i = 0; i < 2; i++) {
        NCCL(ncclAllReduce(from, to, 101, ncclInt8, 0, comms[i], NULL));
        NCCL(ncclCommDestroy(comms[i]));
    }
    return 0;
}

#define THREADS 4
static pthread_barrier_t together;

static void *communicate(void *number) {
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    snprintf(id.internal, sizeof id.internal, "of thread %d", *(int *)number);
    ncclComm_t comm;
    char own[128];
    pthread_barrier_wait(&together);
    if (ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) {
        return NULL;
    }
    for (int i = 0; i < 50; i++) {
        ncclAllReduce(own, own, 109, ncclInt8, 0, comm, NULL);
    }
    ncclCommDestroy(comm);
    return number;
}

/* The first communicators of the process are made at the same time. */
static int by_threads(void) {
    pthread_t threads[THREADS];
    int numbers[THREADS], failed = 0;
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, communicate, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        failed |= !result;
    }
    return failed;
}

static int in_child(void) {
    ncclUniqueId id;
    ncclComm_t comm;
    memset(&id, 0, sizeof id);
    strcpy(id.internal, "of the child");
    NCCL(ncclCommInitRank(&comm, 1, id, 0));
    for (int i = 0; i < 7; i++) {
        NCCL(ncclAllReduce(from, to, 107, ncclInt8, 0, comm, NULL));
    }
    NCCL(ncclCommDestroy(comm));
    return 0;
}

/* The first communicator of the process is made by a thread with the smallest stack that there may be. */
static int with_small_stack(const char *driver) {
    void *library = dlopen(driver, RTLD_NOW);
    int (*init)(unsigned) = library ? (int (*)(unsigned))dlsym(library, "cuInit") : NULL;
    if (!init || init(0)) {
        fprintf(stderr, "%s cannot be initialised\n", driver);
        return 1;
    }
    pthread_barrier_init(&together, NULL, 1);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_t thread;
    int own = 0;
    void *result = NULL;
    if (pthread_attr_setstacksize(&attributes, 16384) || pthread_create(&thread, &attributes, communicate, &own)) {
        return 1;
    }
    pthread_join(thread, &result);
    return !result;
}

static int with_mpi(const char *library, ncclComm_t comm) {
    int (*call)(void *, void *) = NULL;
    if (!dlopen(library, RTLD_NOW | RTLD_GLOBAL) || !(call = (int (*)(void *, void *))dlsym(RTLD_DEFAULT, "MPI_Init")) ||
        call(NULL, NULL)) {
        fprintf(stderr, "%s cannot be initialised\n", library);
        return 1;
    }
    NCCL(ncclAllReduce(from, to, 103, ncclInt8, 0, comm, NULL));
    int (*end)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "MPI_Finalize");
    return end ? end() : 1;
}

int main(int argc, char **argv) {
    int rank = number("RANK", number("OWN_RANK", 0)), size = number("WORLD_SIZE", number("OWN_SIZE", 1));
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    strcpy(id.internal, "the same on all ranks");
    if (argc > 1 && !strcmp(argv[1], "threads")) {
        return by_threads();
    }
    if (argc > 2 && !strcmp(argv[1], "stack")) {
        return with_small_stack(argv[2]);
    }
    if (argc > 1 && !strcmp(argv[1], "group")) {
        return two_devices(id, rank, size);
    }
    ncclComm_t comm, part;
    errno = EDOM;
    NCCL(ncclCommInitRank(&comm, size, id, rank));
    if (errno != EDOM) {
        perror("errno has changed");
        return 1;
    }
    meet(rank, size);
    for (int i = 0; i < 3; i++) {
        NCCL(ncclAllReduce(from, to, 83, ncclInt8, 0, comm, NULL));
    }
    if (argc > 2 && !strcmp(argv[1], "mpi")) {
        return with_mpi(argv[2], comm);
    }
    if (argc > 1 && !strcmp(argv[1], "child")) {
        pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        if (child == 0) {
            exit(0);
        }
        waitpid(child, NULL, 0);
    }
    if (argc > 1 && !strcmp(argv[1], "fork")) {
        pid_t child = fork();
        if (child == 0) {
            exit(in_child());
        }
        waitpid(child, NULL, 0);
    }
    int is_last = rank == size - 1;
    if (argc > 2 && (!strcmp(argv[1], "exec") || (is_last && !strcmp(argv[1], "last-exec")))) {
        return execv(argv[2], argv + 2);
    }
    NCCL(ncclGroupStart());
    NCCL(ncclSend(from, 89, ncclInt8, (rank + 1) % size, comm, NULL));
    NCCL(ncclRecv(to, 89, ncclInt8, (rank + size - 1) % size, comm, NULL));
    NCCL(ncclGroupEnd());
    pretend_part(rank, size);
    NCCL(ncclCommSplit(comm, 0, rank, &part, NULL));
    NCCL(ncclBroadcast(from, to, 97, ncclInt8, 0, part, NULL));
    NCCL(ncclCommDestroy(part));
    int is_first = rank == 0;
    if (argc > 1 && ((is_last && !strcmp(argv[1], "killed")) || (is_first && !strcmp(argv[1], "first-killed")))) {
        raise(SIGKILL);
    }
    if (argc > 2 && is_last && (!strcmp(argv[1], "after") || !strcmp(argv[1], "first-killed"))) {
        wait_for("done.*", atoi(argv[2]));
    }
    NCCL(ncclCommDestroy(comm));
    return 0;
}
