// Prints what mpisee relies on of nccl.h: constants, sizes of data types, and the bytes of configurations.

#include <nccl.h>
#include <stdio.h>

static void print(const char *name, const void *bytes, size_t size) {
    printf("%s ", name);
    for (size_t i = 0; i < size; i++) printf("%02x", ((const unsigned char *)bytes)[i]);
    printf("\n");
}

#define NUMBER(name) printf(#name " %lld\n", (long long)(name))

int main(void) {
    NUMBER(NCCL_VERSION_CODE);
    NUMBER(NCCL_UNIQUE_ID_BYTES);
    NUMBER(ncclSuccess);
    NUMBER(ncclInvalidUsage);
    NUMBER(ncclInProgress);
    NUMBER(ncclNumTypes);
    NUMBER(ncclInt8);
    NUMBER(ncclUint8);
    NUMBER(ncclInt32);
    NUMBER(ncclUint32);
    NUMBER(ncclInt64);
    NUMBER(ncclUint64);
    NUMBER(ncclFloat16);
    NUMBER(ncclFloat32);
    NUMBER(ncclFloat64);
    NUMBER(ncclBfloat16);
    NUMBER(ncclFloat8e4m3);
    NUMBER(ncclFloat8e5m2);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    print("unnamed", &config, sizeof config);
    config.commName = (const char *)0x12345678;
    print("named", &config, sizeof config);
    return 0;
}
