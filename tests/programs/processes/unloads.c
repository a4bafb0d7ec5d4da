/* Knows nothing of MPI, loads a plugin that does, and unloads what it has loaded beside: unloads PLUGIN BYSTANDER. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *plugin = argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *bystander = plugin ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*run)(void) = bystander ? (int (*)(void))dlsym(plugin, "run") : NULL;
    if (run == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int code = run();
    dlclose(bystander);
    if (dlopen(argv[2], RTLD_NOW | RTLD_NOLOAD) != NULL) {
        fprintf(stderr, "%s is still loaded\n", argv[2]);
        return 2;
    }
    return code;
}
