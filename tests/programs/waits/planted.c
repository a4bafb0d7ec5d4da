/* planted KIND CALLS US: collective calls to which ranks come late by US microseconds in a known way. Each rank notes when it enters and leaves; who
 * caused how much waiting, and suffered it, is computed from that and printed, a line for each rank. The profiler sees nothing of
 * that, which goes by PMPI.
 *   one, two      rank 1, or ranks 1 and 2, come late to MPI_Allreduce
 *   alternating   ranks 1 and 2 in turn; of two ranks both
 *   growing       rank 1, ever later
 *   root          the root of MPI_Bcast, rank 1
 *   leaf          rank 2 of MPI_Reduce, to rank 0
 *   long          rank 1 to MPI_Bcast of 4 MiB, for which the root, rank 0, waits
 *   rows          on the two rows of a grid, rank 1 in one and, half as late, rank 3 in the other
 *   sound         nobody; each computes for as long before every call */
#include "program.h"
#include <time.h>
#include <unistd.h>

enum { MOST_CALLS = 2000, MOST_RANKS = 8 };
enum dependence { ON_ALL, ON_ROOT, OF_ROOT };

static const char *kind;
static int us;
static int is(const char *name) { return strcmp(kind, name) == 0; }

/* MPI_Wtime need not be the same on all ranks. */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static int late_us(int call, int calls) {
    if (is("one") || is("root") || is("long")) return rank == 1 ? us : 0;
    if (is("two")) return rank == 1 || rank == 2 ? us : 0;
    if (is("alternating")) return rank == (size > 2) + call % 2 ? us : 0;
    if (is("growing")) return rank == 1 ? 3 * us * call / calls : 0;
    if (is("leaf")) return rank == 2 ? us : 0;
    if (is("rows")) return rank == 1 ? us : rank == 3 ? us / 2 : 0;
    return 0;
}

static void communicate(MPI_Comm comm) {
    double one = 1, all = 0;
    static char block[4 << 20];
    if (is("long")) MPI_Bcast(block, sizeof block, MPI_CHAR, 0, comm);
    else if (is("root")) MPI_Bcast(&one, 1, MPI_DOUBLE, 1, comm);
    else if (is("leaf")) MPI_Reduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, 0, comm);
    else MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, comm);
}

static int depends(enum dependence dependence, int waiter, int other, int root) {
    if (waiter == other) return 0;
    return dependence == ON_ALL || (dependence == ON_ROOT && other == root) || (dependence == OF_ROOT && waiter == root);
}

/* Adds the waits of one call: at each moment those that are missing share what they cause. */
static void add(const double *in, const double *out, int members, enum dependence dependence, int root, double *caused,
                double *suffered) {
    for (int waiter = 0; waiter < members; waiter++) {
        double from = in[waiter];
        for (;;) {
            double next = 0;
            int missing[MOST_RANKS], count = 0;
            for (int other = 0; other < members; other++)
                if (depends(dependence, waiter, other, root) && in[other] > from && in[other] <= out[waiter]) {
                    if (count == 0 || in[other] < next) next = in[other];
                    missing[count++] = other;
                }
            if (count == 0) break;
            suffered[waiter] += next - from;
            for (int i = 0; i < count; i++) caused[missing[i]] += (next - from) / count;
            from = next;
        }
    }
}

static void tell(MPI_Comm comm, int calls, const double *entered, const double *left) {
    static double in[MOST_RANKS * MOST_CALLS], out[MOST_RANKS * MOST_CALLS];
    double caused[MOST_RANKS] = {0}, suffered[MOST_RANKS] = {0};
    int members, ranks[MOST_RANKS], own;
    PMPI_Comm_size(comm, &members);
    PMPI_Comm_rank(comm, &own);
    EXPECT(members <= MOST_RANKS);
    PMPI_Gather(&rank, 1, MPI_INT, ranks, 1, MPI_INT, 0, comm);
    PMPI_Gather(entered, calls, MPI_DOUBLE, in, calls, MPI_DOUBLE, 0, comm);
    PMPI_Gather(left, calls, MPI_DOUBLE, out, calls, MPI_DOUBLE, 0, comm);
    if (own != 0) return;
    for (int call = 0; call < calls; call++) {
        double a[MOST_RANKS], b[MOST_RANKS];
        for (int member = 0; member < members; member++) {
            a[member] = in[member * calls + call];
            b[member] = out[member * calls + call];
        }
        if (is("root")) add(a, b, members, ON_ROOT, 1, caused, suffered);
        else if (is("leaf") || is("long")) add(a, b, members, OF_ROOT, 0, caused, suffered);
        else add(a, b, members, ON_ALL, 0, caused, suffered);
    }
    for (int member = 0; member < members; member++)
        printf("%d %.9f %.9f\n", ranks[member], caused[member], suffered[member]);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static double entered[MOST_CALLS], left[MOST_CALLS];
    begin(&argc, &argv);
    EXPECT(argc == 4);
    kind = argv[1];
    us = atoi(argv[3]);
    int calls = atoi(argv[2]);
    EXPECT(calls <= MOST_CALLS);
    MPI_Comm comm = MPI_COMM_WORLD;
    if (is("rows")) MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &comm);
    PMPI_Barrier(comm);
    for (int call = 0; call < calls; call++) {
        double begin = now();
        if (is("sound"))
            while (now() - begin < 1e-6 * us) {}
        int late = late_us(call, calls);
        if (late > 0) usleep(late);
        entered[call] = now();
        communicate(comm);
        left[call] = now();
    }
    tell(comm, calls, entered, left);
    MPI_Finalize();
    return 0;
}
