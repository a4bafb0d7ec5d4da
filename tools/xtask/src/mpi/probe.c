/* Compiled and run with an MPI compiler wrapper: says which MPI library the wrapper leads to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int main(void) {
    /* Both are allowed before MPI_Init. The address comes from dlsym, since that of a function as an
       executable sees it may lie in the executable itself. */
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    Dl_info info;
    MPI_Get_library_version(text, &length);
    void *send = dlsym(RTLD_DEFAULT, "MPI_Send");
    if (!send || !dladdr(send, &info)) {
        fprintf(stderr, "MPI_Send is not in a shared library; mpisee cannot stand in front of a static MPI\n");
        return 1;
    }
    /* The version of the standard's own binary interface, if the library has that one. */
    int major = -1, minor = -1;
    int (*interface)(int *, int *) = (int (*)(int *, int *))dlsym(RTLD_DEFAULT, "MPI_Abi_get_version");
    if (interface)
        interface(&major, &minor);
    printf("%s\n", info.dli_fname);
    if (major > 0)
        printf("%d.%d", major, minor);
    printf("\n%s\n", text);
    return 0;
}
