/* Calls MPI at places whose lines it prints: `OPERATION FUNCTION LINE CALLS` of each, by rank 0. All calls of one kind move as much,
 * so that only their place tells them apart. With the arguments "slow TIMES" rank 1 comes late to a Barrier, by
 * two functions, until rank 0 has waited for it so many times. */
#define _GNU_SOURCE
#include "../program.h"
#include <unistd.h>

#define NOT_INLINED __attribute__((noinline))

struct place {
    const char *operation, *function;
    int line, calls;
} places[64];
static int known;

/* Notes that a call is made in this line. */
#define HERE(operation) note(operation, __func__, __LINE__)

static NOT_INLINED void note(const char *operation, const char *function, int line) {
    for (int at = 0; at < known; at++)
        if (places[at].line == line && strcmp(places[at].operation, operation) == 0) {
            places[at].calls++;
            return;
        }
    places[known++] = (struct place){operation, function, line, 1};
}

static NOT_INLINED void exchange(MPI_Comm comm, int times) {
    char out[24] = {0}, in[24];
    MPI_Request requests[2];
    for (int time = 0; time < times; time++) {
        HERE("MPI_Irecv"), MPI_Irecv(in, 24, MPI_BYTE, (rank + size - 1) % size, 5, comm, &requests[0]);
        HERE("MPI_Isend"), MPI_Isend(out, 24, MPI_BYTE, (rank + 1) % size, 5, comm, &requests[1]);
        HERE("MPI_Waitall"), MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

static NOT_INLINED void one_by_one(MPI_Comm comm) {
    char out[24] = {0}, in[24];
    MPI_Request receive, send;
    HERE("MPI_Irecv"), MPI_Irecv(in, 24, MPI_BYTE, (rank + size - 1) % size, 6, comm, &receive);
    HERE("MPI_Isend"), MPI_Isend(out, 24, MPI_BYTE, (rank + 1) % size, 6, comm, &send);
    HERE("MPI_Wait"), MPI_Wait(&receive, MPI_STATUS_IGNORE);
    HERE("MPI_Wait"), MPI_Wait(&send, MPI_STATUS_IGNORE);
    HERE("MPI_Sendrecv"), MPI_Sendrecv(out, 24, MPI_BYTE, (rank + 1) % size, 7, in, 24, MPI_BYTE, (rank + size - 1) % size, 7, comm,
                                       MPI_STATUS_IGNORE);
}

static NOT_INLINED void reduce(MPI_Comm comm, int times) {
    double one = 1, sum;
    for (int time = 0; time < times; time++) {
        HERE("MPI_Allreduce"), MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
        if (time % 3 == 0)
            HERE("MPI_Allreduce"), MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    }
}

static NOT_INLINED void persistent(MPI_Comm comm) {
    char out[24] = {0}, in[24];
    MPI_Request requests[2];
    HERE("MPI_Recv_init"), MPI_Recv_init(in, 24, MPI_BYTE, (rank + size - 1) % size, 8, comm, &requests[0]);
    HERE("MPI_Send_init"), MPI_Send_init(out, 24, MPI_BYTE, (rank + 1) % size, 8, comm, &requests[1]);
    for (int time = 0; time < 4; time++) {
        HERE("MPI_Startall"), MPI_Startall(2, requests);
        HERE("MPI_Waitall"), MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    HERE("MPI_Request_free"), MPI_Request_free(&requests[0]);
    HERE("MPI_Request_free"), MPI_Request_free(&requests[1]);
}

/* The last call of a function would leave no frame of it. */
#define STAYS __asm__ volatile("")

static NOT_INLINED void arrive(MPI_Comm comm) {
    HERE("MPI_Barrier"), MPI_Barrier(comm);
    STAYS;
}

static NOT_INLINED void arrive_late(MPI_Comm comm) {
    if (rank == 1)
        usleep(600 * 1000);
    arrive(comm);
    STAYS;
}

/* Returns whether rank 0 waited for rank 1. On a busy machine rank 0 may have come later. */
static NOT_INLINED int has_waited(MPI_Comm comm) {
    double begin = MPI_Wtime();
    arrive_late(comm);
    int waited = MPI_Wtime() - begin > 0.2;
    MPI_Bcast(&waited, 1, MPI_INT, 0, comm);
    return waited;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm comm;
    HERE("MPI_Comm_dup"), MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    exchange(comm, 50);
    one_by_one(comm);
    reduce(comm, 30);
    persistent(comm);
    char word[24] = {0};
    HERE("MPI_Bcast"), MPI_Bcast(word, 24, MPI_BYTE, 0, comm);
    if (argc > 1 && strcmp(argv[1], "addresses") == 0)
        fprintf(stderr, "main at %p\n", (void *)main);
    if (argc > 1 && strcmp(argv[1], "slow") == 0)
        for (int times = argc > 2 ? atoi(argv[2]) : 1; times > 0; times -= has_waited(comm)) {}
    HERE("MPI_Comm_free"), MPI_Comm_free(&comm);
    for (int at = 0; rank == 0 && at < known; at++)
        printf("%s %s %d %d\n", places[at].operation, places[at].function, places[at].line, places[at].calls);
    return MPI_Finalize();
}
