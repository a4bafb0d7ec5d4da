/* Knows nothing of MPI, and loads a plugin that does: host PLUGIN local|global. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    int is_local = argc > 2 && strcmp(argv[2], "local") == 0;
    void *plugin = dlopen(argv[1], RTLD_NOW | (is_local ? RTLD_LOCAL : RTLD_GLOBAL));
    int (*run)(void) = plugin ? (int (*)(void))dlsym(plugin, "run") : NULL;
    if (run == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return run();
}
