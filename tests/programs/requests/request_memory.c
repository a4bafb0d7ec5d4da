/* Ten million requests, of which few are open at a time, take no memory. Argument: how many. */
#include "program.h"

enum { BATCH = 50, ALLOWED_KIB = 256 };

static long resident_kib(void) {
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmRSS: %ld kB", &kib) == 1) break;
    if (status) fclose(status);
    EXPECT(kib > 0);
    return kib;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char out[BATCH], in[BATCH];
    long rounds = atol(argv[1]) / (2 * BATCH), before = 0;
    MPI_Comm comms[2] = {MPI_COMM_SELF};
    MPI_Comm_dup(MPI_COMM_SELF, &comms[1]);
    for (long round = 0; round < rounds; round++) {
        MPI_Request requests[2 * BATCH];
        for (int i = 0; i < BATCH; i++) {
            MPI_Irecv(&in[i], 1, MPI_BYTE, 0, i, comms[i % 2], &requests[2 * i]);
            MPI_Isend(&out[i], 1, MPI_BYTE, 0, i, comms[i % 2], &requests[2 * i + 1]);
        }
        MPI_Waitall(2 * BATCH, requests, MPI_STATUSES_IGNORE);
        if (round == rounds / 10) before = resident_kib();
    }
    long grown = resident_kib() - before;
    printf("grown %ld\n", grown < 0 ? 0 : grown);
    EXPECT(grown <= ALLOWED_KIB);
    MPI_Comm_free(&comms[1]);
    MPI_Finalize();
    return 0;
}
