/* Calls MPI from libraries that are loaded where others were: in turns of ten slow calls from the library that is the first argument,
 * from the second one, which often gets the addresses of the first, and from the first again while the second stays, at other
 * addresses. Prints whether the second one was where the first had been. */
#include "../program.h"
#include <dlfcn.h>
#include <unistd.h>

#define CALLS 10

static void *used(const char *file, const void **address) {
    void *library = dlopen(file, RTLD_NOW);
    EXPECT(library != NULL);
    int (*gather)(void) = (int (*)(void))dlsym(library, "gather_in_library");
    EXPECT(gather != NULL);
    *address = (const void *)gather;
    for (int time = 0; time < CALLS; time++) {
        if (rank == 1) usleep(20 * 1000);
        EXPECT(gather() == size * (size - 1) / 2);
    }
    return library;
}

int main(int argc, char **argv) {
    const void *first, *second, *again;
    begin(&argc, &argv);
    EXPECT(argc == 3);
    EXPECT(dlclose(used(argv[1], &first)) == 0);
    used(argv[2], &second);
    used(argv[1], &again);
    EXPECT(again != first || second != first);
    if (rank == 0) printf("%s\n", first == second ? "replaced" : "elsewhere");
    return MPI_Finalize();
}
