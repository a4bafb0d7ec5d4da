// Calls NCCL where there is no GPU: what each call returns is printed, and must be the same with mpisee between.

#include <nccl.h>
#include <stdio.h>

int main(void) {
    int version = 0;
    ncclUniqueId id = {{0}};
    ncclComm_t comm = NULL;
    char data[211] = {0};
    printf("ncclGetVersion %d\n", ncclGetVersion(&version));
    printf("version %d\n", version);
    printf("ncclGetUniqueId %d\n", ncclGetUniqueId(&id));
    printf("ncclGroupStart %d\n", ncclGroupStart());
    printf("ncclGroupEnd %d\n", ncclGroupEnd());
    printf("ncclCommInitRank %d\n", ncclCommInitRank(&comm, 1, id, 0));
    printf("comm %s\n", comm ? "made" : "none");
    printf("ncclAllReduce %d\n", ncclAllReduce(data, data, sizeof data, ncclInt8, ncclSum, NULL, NULL));
    printf("ncclCommDestroy %d\n", ncclCommDestroy(NULL));
    printf("%s\n", ncclGetErrorString(ncclInvalidArgument));
    return 0;
}
