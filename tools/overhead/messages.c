// Counts the messages and collective calls that go through the profiling interface of MPI: those of
// the program, which the profiler passes on, and those that it makes itself. Preloaded behind
// libmpisee.so; see tools/overhead/finalize.c, which says where phases end.
//
// At the end each rank writes a line for each phase to $MESSAGES_TO/RANK: messages, their bytes,
// collective calls.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { PHASES = 8 };
static long messages[PHASES], bytes[PHASES], collectives[PHASES];
static int phase;

void next_phase(void) {
    if (phase < PHASES - 1) ++phase;
}

static void sent(int count, MPI_Datatype type) {
    int size = 0;
    PMPI_Type_size(type, &size);
    ++messages[phase];
    bytes[phase] += (long)size * count;
}

#define NEXT(FUNCTION, ...)                                                                   \
    do {                                                                                      \
        static __typeof__(&FUNCTION) next;                                                    \
        if (!next) next = (__typeof__(&FUNCTION))dlsym(RTLD_NEXT, #FUNCTION);                 \
        return next(__VA_ARGS__);                                                             \
    } while (0)

#define SEND(FUNCTION)                                                                        \
    int FUNCTION(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) { \
        sent(count, type);                                                                    \
        NEXT(FUNCTION, buffer, count, type, to, tag, comm);                                   \
    }
#define NONBLOCKING_SEND(FUNCTION)                                                            \
    int FUNCTION(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request) { \
        sent(count, type);                                                                    \
        NEXT(FUNCTION, buffer, count, type, to, tag, comm, request);                          \
    }
#define COLLECTIVE(FUNCTION, PARAMETERS, ...)                                                 \
    int FUNCTION PARAMETERS {                                                                 \
        ++collectives[phase];                                                                 \
        NEXT(FUNCTION, __VA_ARGS__);                                                          \
    }

SEND(PMPI_Send)
SEND(PMPI_Ssend)
NONBLOCKING_SEND(PMPI_Isend)
NONBLOCKING_SEND(PMPI_Issend)

int PMPI_Sendrecv(const void *from, int count, MPI_Datatype type, int to, int tag, void *into, int room, MPI_Datatype of, int source,
                  int with, MPI_Comm comm, MPI_Status *status) {
    sent(count, type);
    NEXT(PMPI_Sendrecv, from, count, type, to, tag, into, room, of, source, with, comm, status);
}

COLLECTIVE(PMPI_Barrier, (MPI_Comm comm), comm)
COLLECTIVE(PMPI_Bcast, (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm), buffer, count, type, root, comm)
COLLECTIVE(PMPI_Allreduce, (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm), from, to, count, type,
           op, comm)
COLLECTIVE(PMPI_Iallreduce, (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request),
           from, to, count, type, op, comm, request)
COLLECTIVE(PMPI_Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *new), comm, group, new)
COLLECTIVE(PMPI_Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *new), comm, group, tag, new)
COLLECTIVE(PMPI_Comm_dup, (MPI_Comm comm, MPI_Comm *new), comm, new)
COLLECTIVE(PMPI_Comm_idup, (MPI_Comm comm, MPI_Comm *new, MPI_Request *request), comm, new, request)
COLLECTIVE(PMPI_Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *new), comm, color, key, new)
COLLECTIVE(PMPI_Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *new), comm, type, key, info, new)
COLLECTIVE(PMPI_Comm_free, (MPI_Comm *comm), comm)

int PMPI_Finalize(void) {
    const char *folder = getenv("MESSAGES_TO");
    int rank = 0;
    char path[4096];
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s/%d", folder ? folder : ".", rank);
    FILE *file = folder ? fopen(path, "w") : NULL;
    for (int i = 0; file && i <= phase; ++i) fprintf(file, "%ld %ld %ld\n", messages[i], bytes[i], collectives[i]);
    if (file) fclose(file);
    NEXT(PMPI_Finalize);
}
