/* nccl_by_name none|some|plugin PATH|handle PATH: looks for NCCL among the symbols of the process, where there is to be none or
 * some; or loads a plugin that is linked with it; or NCCL itself, and asks it for its functions. */
#include "../program.h"
#include "pretended_nccl.h"
#include <dlfcn.h>

static int by_handle(void *library) {
    ncclResult_t (*get_id)(ncclUniqueId *) = (ncclResult_t (*)(ncclUniqueId *))dlsym(library, "ncclGetUniqueId");
    ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int) =
        (ncclResult_t (*)(ncclComm_t *, int, ncclUniqueId, int))dlsym(library, "ncclCommInitRank");
    ncclUniqueId id;
    ncclComm_t comm;
    return get_id(&id) || init(&comm, 1, id, 0);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(argc > 1);
    int is_there = dlsym(RTLD_DEFAULT, "ncclAllReduce") != NULL;
    if (argc == 2) {
        EXPECT(is_there == !strcmp(argv[1], "some"));
    } else {
        void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        EXPECT(library);
        int (*plugin)(void) = (int (*)(void))dlsym(library, "run_plugin");
        EXPECT(!(strcmp(argv[1], "plugin") ? by_handle(library) : plugin()));
    }
    MPI_Finalize();
    return 0;
}
