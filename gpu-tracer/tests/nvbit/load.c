/* Loads what CUDA_INJECTION64_PATH names, as the driver does; ends with 0 if the tracer of the folder came with it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    const char *injected = getenv("CUDA_INJECTION64_PATH");
    void *library = injected && count == 2 ? dlopen(injected, RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*initialize)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    if (!initialize || !initialize()) {
        fprintf(stderr, "%s\n", library ? "it has no InitializeInjection" : dlerror());
        return 2;
    }
    return dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) ? 0 : 1;
}
