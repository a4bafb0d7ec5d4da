/* Rank 1 writes a title over its environment before MPI_Init, as setproctitle, PostgreSQL and nginx do: it moves the
 * variables and clears the old place, so that /proc/PID/environ has no variables for other processes. Only what others
 * see of rank 1 changes: rank 1 itself still has them all.
 * Right: both ranks print "ok"; the profile is complete and has one MPI_Barrier of each. */
#include "common.h"

extern char **environ;

static void set_title(const char *title) {
    char *begin = environ[0], *end = begin;
    int n = 0;
    for (char **e = environ; *e; e++, n++)
        if (*e == end) end += strlen(*e) + 1;
    char **copy = malloc((n + 1) * sizeof *copy);
    for (int i = 0; i < n; i++) copy[i] = strdup(environ[i]);
    copy[n] = NULL;
    environ = copy;
    memset(begin, 0, end - begin);
    snprintf(begin, end - begin, "%s", title);
}

int main(int argc, char **argv) {
    int rank;
    watchdog();
    if (launched_rank() == 1) set_title("worker 1");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    ok(rank);
    MPI_Finalize();
    return 0;
}
