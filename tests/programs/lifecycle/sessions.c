/* Communicators from groups of a session, each operation with a size of its own; 4 processes. With the argument
 * "world" MPI_Init comes after the session, and there is a world as well. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(what) ((what) ? (void)0 : (fprintf(stderr, "line %d: %s\n", __LINE__, #what), exit(1)))

static char out[9001], in[9001];

static MPI_Comm from_group(MPI_Group group, const char *tag) {
    MPI_Comm comm;
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    return comm;
}

/* Each process has a communicator of its own and no other; the last begins when the others have ended. */
static int each_alone(void) {
    const char *rank = getenv("PMI_RANK") ? getenv("PMI_RANK") : getenv("OMPI_COMM_WORLD_RANK");
    EXPECT(rank);
    MPI_Session unseen, session;
    MPI_Group self;
    /* The first session waits for all processes in some MPIs. */
    PMPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &unseen);
    if (!strcmp(rank, "2")) usleep(400000);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://SELF", &self);
    MPI_Comm comm = from_group(self, "self");
    MPI_Bcast(out, 77, MPI_BYTE, 0, comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&self);
    MPI_Session_finalize(&session);
    PMPI_Session_finalize(&unseen);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "alone")) return each_alone();
    int with_world = argc > 1 && !strcmp(argv[1], "world");
    int rank, size;
    MPI_Session session, second;
    MPI_Group everyone, half_group, other_group;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    if (with_world) MPI_Init(&argc, &argv);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &everyone);
    MPI_Group_rank(everyone, &rank);
    MPI_Group_size(everyone, &size);
    EXPECT(size == 4);

    MPI_Comm all = from_group(everyone, "all"), copy, half, both;
    MPI_Comm_set_name(all, "everyone");
    MPI_Status status;
    int count;
    MPI_Sendrecv(out, 1009 + rank, MPI_BYTE, (rank + 1) % 4, 1, in, sizeof in, MPI_BYTE, (rank + 3) % 4, 1, all, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    EXPECT(count == 1009 + (rank + 3) % 4);
    MPI_Comm_dup(all, &copy);
    MPI_Bcast(out, 2003, MPI_BYTE, 0, copy);

    /* A second session, which ends before the first, has a group of every second process. */
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &second);
    int mine[2] = {rank % 2, rank % 2 + 2}, theirs[2] = {1 - rank % 2, 3 - rank % 2};
    MPI_Group_incl(everyone, 2, mine, &half_group);
    MPI_Group_incl(everyone, 2, theirs, &other_group);
    half = from_group(half_group, rank % 2 ? "odd" : "even");
    MPI_Comm_set_name(half, rank % 2 ? "odd" : "even");
    MPI_Allreduce(out, in, 4001, MPI_BYTE, MPI_BOR, half);
    MPI_Intercomm_create_from_groups(half_group, 0, other_group, 0, "both", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &both);
    MPI_Comm_set_name(both, "both");
    MPI_Sendrecv(out, 8009, MPI_BYTE, rank / 2, 2, in, sizeof in, MPI_BYTE, rank / 2, 2, both, MPI_STATUS_IGNORE);
    MPI_Comm_free(&both);
    MPI_Session_finalize(&second);
    if (with_world) MPI_Scan(out, in, 77, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);

    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&all);
    MPI_Group_free(&half_group);
    MPI_Group_free(&other_group);
    MPI_Group_free(&everyone);
    if (with_world) MPI_Finalize();
    MPI_Session_finalize(&session);
    return 0;
}
