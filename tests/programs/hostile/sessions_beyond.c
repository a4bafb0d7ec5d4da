/* Sessions that last longer than one expects, by the argument:
 *   world  a session that began between MPI_Init and MPI_Finalize goes on after it
 *   exit   a session that an exit handler ends, which was registered before the session began
 * Right: each rank prints "ok"; there is a profile with the barriers on the session's communicator: of "world" the five
 * before MPI_Finalize, and that a session went on is said; of "exit" all ten. */
#include "common.h"
/* Open MPI 5 has sessions, and says that it is MPI 3.1. */
#if MPI_VERSION >= 4 || OMPI_MAJOR_VERSION >= 5

static MPI_Session session;
static MPI_Comm comm;

static void use(void) {
    for (int i = 0; i < 5; i++) MPI_Barrier(comm);
}

static int begin(void) {
    MPI_Group group;
    int rank;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "beyond", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    MPI_Comm_rank(comm, &rank);
    use();
    return rank;
}

static void end(void) {
    use();
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
}

int main(int argc, char **argv) {
    watchdog();
    if (is(argc, argv, "world")) {
        MPI_Init(&argc, &argv);
        int rank = begin();
        MPI_Finalize();
        end();
        ok(rank);
    } else {
        atexit(end);
        ok(begin());
    }
    return 0;
}
#else
int main(void) { return 0; }
#endif
