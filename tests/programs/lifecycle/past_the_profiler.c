/* MPI calls that a preloaded library does not see: by the names of the profiling interface, as behind another PMPI tool. With -DOPENS: in
 * the library that the argument names, which is loaded so that its own MPI comes first; with -DLIBRARY it is that library. With -DAPART the
 * library is loaded into a name space of its own, and called if there is another argument before its name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

#ifdef LIBRARY
int communicate(int argc, char **argv);
int communicate(int argc, char **argv) {
    int one = 1, sum;
    MPI_Init(&argc, &argv);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
#elif defined OPENS
int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 4;
    }
    int (*communicate)(int, char **) = (int (*)(int, char **))dlsym(library, "communicate");
    return communicate ? communicate(argc, argv) : 5;
}
#elif defined APART
int main(int argc, char **argv) {
    void *library = dlmopen(LM_ID_NEWLM, argv[argc - 1], RTLD_NOW);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    if (argc == 2) return library ? 0 : 4;
    int (*communicate)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "communicate") : NULL;
    return communicate ? communicate(argc, argv) : 5;
}
#else
int main(int argc, char **argv) {
    int one = 1, sum;
    PMPI_Init(&argc, &argv);
    PMPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    PMPI_Finalize();
    return 0;
}
#endif
