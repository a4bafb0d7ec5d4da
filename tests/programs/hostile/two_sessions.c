/* Two sessions of one process, in an MPI that has them, by the argument:
 *   threads  two threads open one each at the same moment
 *   nested   all ranks make a communicator from each of two sessions that are open at the same time
 *   again    all ranks open a second session after the first has ended
 * Right: "done"; of "nested" two communicators of all, with 100 and 200 bytes broadcast on them. */
#include "common.h"
/* Open MPI 5 has sessions, and says that it is MPI 3.1. */
#if MPI_VERSION >= 4 || OMPI_MAJOR_VERSION >= 5
#include <pthread.h>

static pthread_barrier_t together;

static void *open_session(void *session) {
    pthread_barrier_wait(&together);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, session);
    return NULL;
}

static void open_at_once(MPI_Session sessions[2]) {
    pthread_t threads[2];
    pthread_barrier_init(&together, NULL, 2);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, open_session, &sessions[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static MPI_Comm from(MPI_Session session, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    return comm;
}

static void use(MPI_Comm comm, int bytes) {
    static char data[200];
    MPI_Bcast(data, bytes, MPI_BYTE, 0, comm);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    MPI_Session sessions[2];
    watchdog();
    if (is(argc, argv, "threads")) open_at_once(sessions);
    for (int i = 0; i < 2 && !is(argc, argv, "threads"); i++) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &sessions[i]);
        if (is(argc, argv, "again")) {
            use(from(sessions[i], "again"), 100 * (i + 1));
            MPI_Session_finalize(&sessions[i]);
        }
    }
    if (is(argc, argv, "nested")) {
        MPI_Comm first = from(sessions[0], "first"), second = from(sessions[1], "second");
        use(second, 200);
        use(first, 100);
    }
    for (int i = 0; i < 2 && !is(argc, argv, "again"); i++) MPI_Session_finalize(&sessions[i]);
    /* In one piece, since the launcher may let lines of two ranks run into each other. */
    write(1, "done\n", 5);
    return 0;
}
#else
int main(void) {
    puts("no sessions");
    return 0;
}
#endif
