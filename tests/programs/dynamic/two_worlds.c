/* Spawns several programs at once, two worlds of this program that meet each other, and one from a single rank.
 * The argument is the profiler's command; further ones tell a spawned process what to do. */
#include "program.h"

static char data[4096];

/* A process of one of the two worlds: 2 ranks that accept or connect. */
static void meet(MPI_Comm parent, int accepts) {
    MPI_Comm inter;
    char port[MPI_MAX_PORT_NAME] = "";
    EXPECT(size == 2);
    if (accepts && rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 1, parent);
    }
    if (!accepts && rank == 0) MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 1, parent, MPI_STATUS_IGNORE);
    if (accepts) MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    else MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    int mine = (accepts ? 1000 : 2000) + rank, theirs = (accepts ? 2000 : 1000) + rank;
    MPI_Sendrecv(data, mine, MPI_BYTE, rank, 2, data, theirs, MPI_BYTE, rank, 2, inter, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&inter);
}

/* One of three that were spawned by one call, of two commands. */
static void one_of_several(MPI_Comm parent, const char *which) {
    int number;
    EXPECT(size == 3);
    EXPECT(strcmp(which, rank == 0 ? "first" : "second") == 0);
    MPI_Scatter(NULL, 0, MPI_BYTE, &number, 1, MPI_INT, 0, parent);
    EXPECT(number == 100 + rank);
    /* Grandchildren have a world of their own, too; nothing is said to them. */
}

static MPI_Comm spawn(char *command, char *output, char *program, char *role, int count, MPI_Comm comm) {
    MPI_Comm inter;
    char *arguments[] = {"--output", output, program, role, NULL};
    MPI_Comm_spawn(command, arguments, count, MPI_INFO_NULL, 0, comm, &inter, MPI_ERRCODES_IGNORE);
    return inter;
}

static void spawn_two_worlds(char *command, char *program) {
    MPI_Comm accepting = spawn(command, "accepting", program, "accept", 2, MPI_COMM_WORLD);
    MPI_Comm connecting = spawn(command, "connecting", program, "connect", 2, MPI_COMM_WORLD);
    if (rank == 0) {
        char port[MPI_MAX_PORT_NAME];
        MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 1, accepting, MPI_STATUS_IGNORE);
        MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 1, connecting);
    }
    MPI_Comm_disconnect(&accepting);
    MPI_Comm_disconnect(&connecting);
}

static void spawn_several(char *command, char *program) {
    char *commands[] = {command, command};
    char *first[] = {"--output", "several", program, "first", NULL};
    char *second[] = {"--output", "several", program, "second", NULL};
    char **arguments[] = {first, second};
    int counts[] = {1, 2}, codes[3], numbers[] = {100, 101, 102};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm inter;
    MPI_Comm_spawn_multiple(2, commands, arguments, counts, infos, 0, MPI_COMM_WORLD, &inter, codes);
    int root = rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    MPI_Scatter(numbers, 1, MPI_INT, NULL, 0, MPI_INT, root, inter);
    MPI_Comm_disconnect(&inter);
}

int main(int argc, char **argv) {
    MPI_Comm parent;
    begin(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        EXPECT(argc == 2);
        spawn_two_worlds(argv[1], argv[0]);
        spawn_several(argv[1], argv[0]);
        if (rank == 1) {
            MPI_Comm own = spawn(argv[1], "own", argv[0], "alone", 1, MPI_COMM_SELF);
            MPI_Send(data, 109, MPI_BYTE, 0, 1, own);
            MPI_Comm_disconnect(&own);
        }
        if (rank == 0) puts("all is well");
    } else {
        EXPECT(argc == 2);
        if (strcmp(argv[1], "accept") == 0 || strcmp(argv[1], "connect") == 0) meet(parent, argv[1][0] == 'a');
        else if (strcmp(argv[1], "alone") != 0) one_of_several(parent, argv[1]);
        else MPI_Recv(data, 109, MPI_BYTE, 0, 1, parent, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&parent);
    }
    MPI_Finalize();
    return 0;
}
