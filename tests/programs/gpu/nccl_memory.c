/* nccl_memory DRIVER: loads CUDA's driver, which is pretended, after MPI_Init, as a program does that takes its GPU by its rank;
 * then makes a communicator of NCCL, and communicates on it, before many calls were made. 1 rank. */
#include "../program.h"
#include "pretended_nccl.h"
#include <dlfcn.h>

#define NCCL(call) EXPECT((call) == ncclSuccess)
static char words[4096];

int main(int argc, char **argv) {
    ncclUniqueId id;
    ncclComm_t comm;
    begin(&argc, &argv);
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    EXPECT(library);
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    void (*pretend)(void *, size_t, unsigned, unsigned) =
        (void (*)(void *, size_t, unsigned, unsigned))dlsym(library, "pretend");
    EXPECT(init && pretend && !init(0));
    pretend(words, sizeof words, 2, 0);
    NCCL(ncclGetUniqueId(&id));
    NCCL(ncclCommInitRank(&comm, 1, id, 0));
    NCCL(ncclAllReduce(words, words, 67, ncclInt8, 0, comm, NULL));
    NCCL(ncclCommDestroy(comm));
    MPI_Finalize();
    return 0;
}
