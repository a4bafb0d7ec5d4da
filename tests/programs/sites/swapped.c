/* Loads and unloads two libraries in turns, the second argument and the third, which often get the same addresses, and has slow calls made
 * in them by one call instruction each. The first argument says what happens:
 *   operations  two operations in each library
 *   rounds      one operation, in many turns
 *   made        one operation in the first library, in a copy of its code without a file, and in the library again
 *   namespace   one operation in the first library, which has a namespace of its own
 * Prints "replaced" if all code was at one address, else "elsewhere"; of a namespace, whether the C library finds objects in others. */
#define _GNU_SOURCE
#include "../program.h"
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CALLS 10
#define ROUNDS 30

typedef int (*Operation)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
typedef void (*Caller)(Operation, int, MPI_Datatype, MPI_Op, MPI_Comm);

static uintptr_t first_address;
static int is_replaced = 1;

/* The other ranks are late, so that rank 0 waits in the library's calls. */
static void calls_of(Caller caller, Operation operation, int calls) {
    if (rank == 0) {
        if (first_address == 0) first_address = (uintptr_t)caller;
        is_replaced &= first_address == (uintptr_t)caller;
        caller(operation, calls, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        return;
    }
    for (int call = 0; call < calls; call++) {
        int from[64] = {0}, to[64];
        usleep(10 * 1000);
        operation(from, to, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
}

static Caller loaded(const char *file, void **library) {
    *library = dlopen(file, RTLD_NOW);
    EXPECT(*library != NULL);
    Caller caller = (Caller)dlsym(*library, "call_in_library");
    EXPECT(caller != NULL);
    return caller;
}

/* A copy of the page of code, where that was; NULL if something else is there by now. */
static char *copied(const char *code, uintptr_t page, size_t bytes) {
    char *copy = mmap((void *)page, bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (copy == MAP_FAILED) return NULL;
    memcpy(copy, code, bytes);
    __builtin___clear_cache(copy, copy + bytes);
    return copy;
}

static void made(const char *file) {
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *library;
    Caller caller = loaded(file, &library);
    uintptr_t page = (uintptr_t)caller & ~(uintptr_t)(bytes - 1);
    char *code = malloc(bytes);
    EXPECT(code != NULL);
    memcpy(code, (void *)page, bytes);
    calls_of(caller, MPI_Allreduce, CALLS);
    EXPECT(dlclose(library) == 0);
    char *copy = copied(code, page, bytes);
    int is_copied = copy != NULL;
    MPI_Bcast(&is_copied, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (is_copied) calls_of(caller, MPI_Allreduce, CALLS);
    else is_replaced = 0;
    if (copy != NULL) EXPECT(munmap(copy, bytes) == 0);
    calls_of(loaded(file, &library), MPI_Allreduce, CALLS);
    free(code);
}

static void in_namespace(const char *file) {
    void *library = dlmopen(LM_ID_NEWLM, file, RTLD_NOW);
    EXPECT(library != NULL);
    Caller caller = (Caller)dlsym(library, "call_in_library");
    EXPECT(caller != NULL);
    calls_of(caller, MPI_Allreduce, CALLS);
    if (rank == 0) puts(dlsym(RTLD_DEFAULT, "_dl_find_object") != NULL ? "found" : "not found");
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(argc == 4);
    const char *what = argv[1];
    int rounds = strcmp(what, "rounds") == 0 ? ROUNDS : 2;
    if (strcmp(what, "made") == 0) {
        made(argv[2]);
        rounds = 0;
    }
    if (strcmp(what, "namespace") == 0) {
        in_namespace(argv[2]);
        return MPI_Finalize();
    }
    for (int round = 0; round < rounds; round++) {
        void *library;
        Caller caller = loaded(argv[2 + round % 2], &library);
        calls_of(caller, MPI_Allreduce, CALLS);
        if (strcmp(what, "operations") == 0) calls_of(caller, MPI_Reduce_scatter_block, CALLS);
        EXPECT(dlclose(library) == 0);
    }
    if (rank == 0) printf("%s\n", is_replaced ? "replaced" : "elsewhere");
    return MPI_Finalize();
}
