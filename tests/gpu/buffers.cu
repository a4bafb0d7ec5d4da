// Communicates from buffers of each kind of memory: what the memory column of calls.csv is to have. MPI itself need not know GPUs:
// it reads none of the device's memory, since a broadcast to oneself moves nothing.
//
// Prints what a call costs by the kind of its buffer, in nanoseconds: once before CUDA's driver is loaded, and then of each kind.
#include "check.h"

#include <algorithm>
#include <cstring>
#include <vector>

static const int BATCHES = 51, CALLS = 200;

static MPI_Comm self;

// Median over batches.
static double cost_ns(void *buffer) {
    std::vector<double> batches;
    for (int batch = 0; batch < BATCHES; batch++) {
        double begun = MPI_Wtime();
        for (int call = 0; call < CALLS; call++) {
            MPI_Bcast(buffer, 19, MPI_BYTE, 0, self);
        }
        batches.push_back(1e9 * (MPI_Wtime() - begun) / CALLS);
    }
    std::nth_element(batches.begin(), batches.begin() + BATCHES / 2, batches.end());
    return batches[BATCHES / 2];
}

static void tell(const char *kind, void *buffer) {
    double cost = cost_ns(buffer);
    if (rank == 0) {
        printf("%s,%.1f\n", kind, cost);
        fflush(stdout);
    }
}

static void expect_calls(const char *call, const char *memory, int calls, int bytes) {
    fprintf(expected, "%d,W_d1,%s,%s,%d,%d\n", rank, call, memory, calls, bytes);
}

struct Buffer {
    const char *kind;
    char *at;
    int length;
};

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_SELF, &self);
    static char words[4096];
    if (rank == 0) {
        printf("kind,call_ns\n");
    }
    tell("host without the driver", words);
    begin_cuda(count, arguments, "rank,comm,call,memory,calls,bytes");
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);

    void *managed;
    CHECK(cudaMallocManaged(&managed, WHOLE));
    memset(managed, 0, WHOLE);
    void *pinned, *registered = aligned_alloc(4096, WHOLE);
    CHECK(cudaMallocHost(&pinned, WHOLE));
    CHECK(cudaHostRegister(registered, WHOLE, cudaHostRegisterDefault));
    char *device = device_memory<char>(WHOLE), *freed = device_memory<char>(WHOLE);
    CHECK(cudaFree(freed));
    // The driver is looked for now and then: by so many calls it is found.
    for (int call = 0; call < 4000; call++) {
        MPI_Allreduce(MPI_IN_PLACE, words, 3, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    }

    // Also in the middle of an allocation. What goes between the ranks is read by the host.
    const Buffer buffers[] = {
        {"host", words, 101},
        {"pinned", (char *)pinned + 4096, 102},
        {"pinned", (char *)registered + 1, 103},
        {"managed", (char *)managed + 7, 104},
    };
    for (const Buffer &it : buffers) {
        MPI_Sendrecv(it.at, it.length, MPI_BYTE, 1 - rank, 0, words + 2048, it.length, MPI_BYTE, 1 - rank, 0, comm,
                     MPI_STATUS_IGNORE);
    }
    expect_calls("MPI_Sendrecv", "host", 1, 2 * 101);
    expect_calls("MPI_Sendrecv", "pinned", 2, 2 * (102 + 103));
    expect_calls("MPI_Sendrecv", "managed", 1, 2 * 104);
    // A message without bytes into the device's memory.
    MPI_Request requests[2];
    MPI_Irecv(device + 11, 211, MPI_BYTE, 1 - rank, 1, comm, &requests[0]);
    MPI_Isend(words, 0, MPI_BYTE, 1 - rank, 1, comm, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect_calls("MPI_Irecv", "device", 1, 0);
    expect_calls("MPI_Isend", "host", 1, 0);
    expect_calls("MPI_Waitall", "host", 1, 0);
    // Of two buffers the one farther from the host counts.
    MPI_Reduce(managed, pinned, 223, MPI_BYTE, MPI_BOR, 1, comm);
    expect_calls("MPI_Reduce", "managed", 1, 223);
    MPI_Comm_free(&comm);
    expect_calls("MPI_Comm_free", "host", 1, 0);

    tell("host", words);
    tell("pinned", pinned);
    tell("managed", managed);
    tell("device", device);
    tell("device after cudaFree", freed);
    end();
    return 0;
}
