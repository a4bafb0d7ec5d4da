// Memory that others share otherwise than by CUDA IPC: physical memory whose descriptor is sent through a socket and mapped,
// and pools. Rank 0 has it, rank 1 writes to it; what is allocated from an own pool, or mapped from own memory, is own.
#include "driver.h"

#include <cstddef>
#include <sys/socket.h>
#include <sys/un.h>

static const int LANES = 96;
static int socket_of_ranks;

extern "C" __global__ void own_mapped(unsigned *p) { ((volatile unsigned *)p)[threadIdx.x] = 1; }
extern "C" __global__ void own_pool(unsigned *p) { ((volatile unsigned *)p)[threadIdx.x] = 1; }

extern "C" __global__ void mapped(unsigned *p) {
    ((volatile unsigned *)p)[threadIdx.x] = 1; // @mapped
}

extern "C" __global__ void pooled(unsigned *p) {
    ((volatile unsigned *)p)[threadIdx.x] = 1; // @pooled
}

static void insist(bool holds, const char *what) {
    if (!holds) {
        perror(what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

// A socket between the two ranks, whose name is in no file system.
static void meet() {
    sockaddr_un name = {};
    int number = (int)getpid();
    MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    name.sun_family = AF_UNIX;
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "mpisee-check-%d", number);
    socklen_t bytes = (socklen_t)(offsetof(sockaddr_un, sun_path) + 1 + (size_t)length);
    int own = socket(AF_UNIX, SOCK_STREAM, 0);
    insist(own >= 0, "socket");
    if (rank == 0) {
        insist(bind(own, (sockaddr *)&name, bytes) == 0 && listen(own, 1) == 0, "listen");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        socket_of_ranks = accept(own, nullptr, nullptr);
        insist(socket_of_ranks >= 0, "accept");
    } else {
        insist(connect(own, (sockaddr *)&name, bytes) == 0, "connect");
        socket_of_ranks = own;
    }
}

// Takes a descriptor from rank 0 to rank 1.
static int hand_over(int descriptor) {
    char byte = 0;
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    iovec part = {&byte, 1};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    if (rank == 0) {
        cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        *(int *)CMSG_DATA(header) = descriptor;
        insist(sendmsg(socket_of_ranks, &message, 0) == 1, "sendmsg");
        return descriptor;
    }
    insist(recvmsg(socket_of_ranks, &message, 0) == 1 && CMSG_FIRSTHDR(&message), "recvmsg");
    return *(int *)CMSG_DATA(CMSG_FIRSTHDR(&message));
}

// Maps physical memory, with a right to read and write it.
static unsigned *map(CUmemGenericAllocationHandle memory, CUdevice device) {
    CUdeviceptr address;
    CHECK_DRIVER(DRIVER(cuMemAddressReserve)(&address, WHOLE, 0, 0, 0));
    CHECK_DRIVER(DRIVER(cuMemMap)(address, WHOLE, 0, memory, 0));
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK_DRIVER(DRIVER(cuMemSetAccess)(address, WHOLE, &access, 1));
    return (unsigned *)address;
}

static void unmap(unsigned *address, CUmemGenericAllocationHandle memory) {
    CHECK_DRIVER(DRIVER(cuMemUnmap)((CUdeviceptr)address, WHOLE));
    CHECK_DRIVER(DRIVER(cuMemAddressFree)((CUdeviceptr)address, WHOLE));
    CHECK_DRIVER(DRIVER(cuMemRelease)(memory));
}

static void share_physical_memory(CUdevice device) {
    CUmemGenericAllocationHandle memory;
    int descriptor = -1;
    if (rank == 0) {
        CUmemAllocationProp how = {};
        how.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        how.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        how.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        how.location.id = device;
        CHECK_DRIVER(DRIVER(cuMemCreate)(&memory, WHOLE, &how, 0));
        auto export_to = DRIVER(cuMemExportToShareableHandle);
        CHECK_DRIVER(export_to(&descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    }
    descriptor = hand_over(descriptor);
    if (rank == 1) {
        void *given = (void *)(uintptr_t)descriptor;
        auto import_from = DRIVER(cuMemImportFromShareableHandle);
        CHECK_DRIVER(import_from(&memory, given, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    }
    close(descriptor);
    unsigned *words = map(memory, device);
    if (rank == 0) {
        own_mapped<<<1, LANES>>>(words); // counted nowhere
    } else {
        mpisee_name_memory(words, WHOLE, "mapped words");
        mapped<<<1, LANES>>>(words);
        expect({"mapped", "store", 4, "mapped"}, 0, "imported", "mapped words", LANES);
    }
    CHECK(cudaDeviceSynchronize());
    MPI_Barrier(MPI_COMM_WORLD);
    unmap(words, memory);
}

static void share_pool(CUdevice device) {
    cudaMemPool_t pool;
    cudaMemPoolPtrExportData data;
    void *words;
    int descriptor = -1;
    if (rank == 0) {
        cudaMemPoolProps how = {};
        how.allocType = cudaMemAllocationTypePinned;
        how.handleTypes = cudaMemHandleTypePosixFileDescriptor;
        how.location.type = cudaMemLocationTypeDevice;
        how.location.id = device;
        CHECK(cudaMemPoolCreate(&pool, &how));
        CHECK(cudaMallocFromPoolAsync(&words, WHOLE, pool, 0));
        own_pool<<<1, LANES>>>((unsigned *)words); // counted nowhere
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0));
        CHECK(cudaMemPoolExportPointer(&data, words));
    }
    descriptor = hand_over(descriptor);
    MPI_Bcast(&data, sizeof data, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 1) {
        void *given = (void *)(uintptr_t)descriptor;
        CHECK(cudaMemPoolImportFromShareableHandle(&pool, given, cudaMemHandleTypePosixFileDescriptor, 0));
        cudaMemAccessDesc access = {};
        access.location.type = cudaMemLocationTypeDevice;
        access.location.id = device;
        access.flags = cudaMemAccessFlagsProtReadWrite;
        CHECK(cudaMemPoolSetAccess(pool, &access, 1));
        CHECK(cudaMemPoolImportPointer(&words, pool, &data));
        mpisee_name_memory(words, WHOLE, "pooled words");
        pooled<<<1, LANES>>>((unsigned *)words);
        CHECK(cudaDeviceSynchronize());
        expect({"pooled", "store", 4, "pooled"}, 0, "imported", "pooled words", LANES);
        CHECK(cudaFreeAsync(words, 0));
        CHECK(cudaDeviceSynchronize());
    }
    close(descriptor);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        CHECK(cudaFreeAsync(words, 0));
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaMemPoolDestroy(pool));
}

int main(int count, char **arguments) {
    begin(&count, &arguments);
    meet();
    int device;
    CHECK(cudaGetDevice(&device));
    share_physical_memory(device);
    share_pool(device);
    end();
    return 0;
}
