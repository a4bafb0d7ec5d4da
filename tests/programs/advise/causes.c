/* causes KIND: a program with one thing that it should not do, or none.
 *   skewed      rank 1 sends far more than the others in MPI_Alltoallv
 *   moved       all ranks send as much in MPI_Alltoallv, and compute nothing
 *   tiny        rank 0 sends rank 1 a value at a time
 *   barrier     a barrier before each MPI_Allreduce, to which one rank comes late in turn
 *   gather      rank 0 receives a long message of every other rank in turn, and works on each
 *   late end    rank 1 works on when the others are done
 *   starved     halo exchange with receives that are posted early, on one core for all
 *   siblings    one member of each half is late to barriers, too little in either half for a finding
 *   now and then  rank 1 sends late in one of five messages, by another time in each run
 *   everywhere  rank 1 has more work in each round, so that others wait for it in messages, on a half and on the world, and at the end
 *   halo        halo exchange with receives that are posted early
 *   reduce      equal work, then MPI_Allreduce
 *   alltoall    equal work, then MPI_Alltoall
 *   ring        equal work, then a message to the next rank
 * Work is sleep where cores must not matter. By how much it took longer is printed. */
#define _GNU_SOURCE
#include "program.h"
#include "work.h"
#include <sched.h>

enum { LONG = 1 << 20, TINY = 400000, BARRIERS = 3000, ROUNDS = 30, HALO = 1000, HALF_ROUNDS = 60 };

static char out[4 * LONG], in[4 * LONG];
static double sums[HALO];

static void exchange(int shortest) {
    int counts_out[8], counts_in[8], at_out[8], at_in[8];
    for (int other = 0; other < size; other++) {
        counts_out[other] = rank == 1 ? LONG : shortest;
        counts_in[other] = other == 1 ? LONG : shortest;
        at_out[other] = 0;
        at_in[other] = other * LONG;
    }
    for (int round = 0; round < 300; round++)
        MPI_Alltoallv(out, counts_out, at_out, MPI_CHAR, in, counts_in, at_in, MPI_CHAR, MPI_COMM_WORLD);
}

static void tiny(void) {
    double value = 0;
    for (int i = 0; i < TINY; i++) {
        if (rank == 0) MPI_Send(&value, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
        if (rank == 1) MPI_Recv(&value, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void barrier(void) {
    for (int i = 0; i < BARRIERS; i++) {
        double sum = 1;
        compute(i % size == rank ? 200e-6 : 100e-6);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

static void gather(void) {
    for (int round = 0; round < 20; round++) {
        for (int other = 1; rank == 0 && other < size; other++) {
            MPI_Recv(in, LONG, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            rest(20e-3);
        }
        if (rank != 0) MPI_Send(out, LONG, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    }
}

static void halo(void (*work)(void)) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[4];
        MPI_Irecv(in, HALO, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(in + LONG, HALO, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[1]);
        work();
        MPI_Isend(out, HALO, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(out, HALO, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    }
}

static void on_a_core(void) { compute(5e-3); }
static void sleeping(void) { rest(30e-3); }

static void starved(void) {
    cpu_set_t all, one;
    EXPECT(sched_getaffinity(0, sizeof all, &all) == 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    EXPECT(sched_setaffinity(0, sizeof one, &one) == 0);
    halo(on_a_core);
}

static void siblings(void) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &half);
    for (int round = 0; round < HALF_ROUNDS; round++) {
        rest(rank % 2 == 0 ? 32e-3 : 30e-3);
        MPI_Barrier(half);
    }
    MPI_Comm_free(&half);
}

static void now_and_then(void) {
    srand((unsigned)time(NULL) + (unsigned)getpid());
    for (int round = 0; round < 25; round++) {
        rest(10e-3);
        if (rank == 1) {
            if (round % 5 == 4) rest(10e-3 * (1 + rand() % 8));
            MPI_Send(out, HALO, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        } else if (rank == 0) {
            MPI_Recv(in, HALO, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

static void everywhere(void) {
    MPI_Comm half, copy;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &half);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    for (int round = 0; round < ROUNDS; round++) {
        rest(rank == 1 ? 20e-3 : 5e-3);
        MPI_Allreduce(MPI_IN_PLACE, sums, 1, MPI_DOUBLE, MPI_SUM, half);
        rest(rank == 1 ? 10e-3 : 1e-3);
        if (rank == 1) MPI_Send(out, HALO, MPI_CHAR, 2, 0, copy);
        if (rank == 2) MPI_Recv(in, HALO, MPI_CHAR, 1, 0, copy, MPI_STATUS_IGNORE);
        rest(rank == 1 ? 10e-3 : 1e-3);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    rest(rank == 1 ? 0.3 : 0.1);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
}

static void each_round(void (*communicate)(void)) {
    for (int round = 0; round < ROUNDS; round++) {
        sleeping();
        communicate();
    }
}

static void reduce(void) {
    MPI_Allreduce(MPI_IN_PLACE, sums, HALO, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(void) { MPI_Alltoall(out, HALO, MPI_DOUBLE, in, HALO, MPI_DOUBLE, MPI_COMM_WORLD); }

static void ring(void) {
    MPI_Sendrecv(out, HALO, MPI_DOUBLE, (rank + 1) % size, 0, in, HALO, MPI_DOUBLE, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(argc == 2 && size <= 4);
    const char *kind = argv[1];
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(kind, "skewed") == 0) exchange(64);
    else if (strcmp(kind, "moved") == 0) exchange(LONG);
    else if (strcmp(kind, "tiny") == 0) tiny();
    else if (strcmp(kind, "barrier") == 0) barrier();
    else if (strcmp(kind, "gather") == 0) gather();
    else if (strcmp(kind, "late end") == 0) rest(rank == 1 ? 1 : 0.2);
    else if (strcmp(kind, "starved") == 0) starved();
    else if (strcmp(kind, "siblings") == 0) siblings();
    else if (strcmp(kind, "now and then") == 0) now_and_then();
    else if (strcmp(kind, "everywhere") == 0) everywhere();
    else if (strcmp(kind, "halo") == 0) halo(sleeping);
    else if (strcmp(kind, "reduce") == 0) each_round(reduce);
    else if (strcmp(kind, "alltoall") == 0) each_round(alltoall);
    else if (strcmp(kind, "ring") == 0) each_round(ring);
    else EXPECT(!"a known kind");
    tell_disturbance();
    MPI_Finalize();
    return 0;
}
