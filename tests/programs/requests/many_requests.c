/* Many receives open at once, all over again: memory of the process for each, in the first round and in all rounds.
 * Arguments: how many, `multiple` or `single` for the thread level, and `each` or `all` for receives that are started by a call each or
 * by one. */
#include "program.h"

enum { ROUNDS = 3 };

static long resident_bytes(void) {
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmRSS: %ld kB", &kib) == 1) break;
    if (status) fclose(status);
    EXPECT(kib > 0);
    return kib * 1024;
}

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, strcmp(argv[2], "multiple") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
    int open = atoi(argv[1]);
    MPI_Request *requests = malloc(open * sizeof *requests);
    int *in = malloc(open * sizeof *in);
    memset(requests, 1, open * sizeof *requests);
    memset(in, 1, open * sizeof *in);
    int at_once = !strcmp(argv[3], "all");
    long before = resident_bytes(), once = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < open; i++)
            (at_once ? MPI_Recv_init : MPI_Irecv)(&in[i], 1, MPI_INT, 0, i % 10, MPI_COMM_SELF, &requests[i]);
        if (at_once) MPI_Startall(open, requests);
        for (int i = 0; i < open; i++) MPI_Send(&i, 1, MPI_INT, 0, i % 10, MPI_COMM_SELF);
        MPI_Waitall(open, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < open; i++) EXPECT(in[i] == i);
        for (int i = 0; at_once && i < open; i++) MPI_Request_free(&requests[i]);
        if (round == 0) once = resident_bytes() - before;
    }
    printf("bytes %ld %ld\n", once / open, (resident_bytes() - before) / open);
    free(in);
    free(requests);
    MPI_Finalize();
    return 0;
}
