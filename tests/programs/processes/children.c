/* Has children of each kind between its calls: children KIND [PROGRAM]. None of them is a rank.
 *
 * vfork, spawn, system: a child that becomes another program. calls: one that goes on in this program, uses what
 * concerns the profiler alone, and ends with exit. daemon, orphan: a grandchild in a session of its own, with everything
 * closed, that outlives its parent; it writes its number to daemon.RANK and ends when there is a file `leave`. After
 * `orphan` the ranks are killed. singleton: a child that becomes an MPI program with a world of its own.
 */
#include "program.h"
#include <mpisee.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static unsigned char out[800], in[800];

static void wait_for(pid_t child) {
    int status;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void write_number(void) {
    char name[32];
    snprintf(name, sizeof name, "daemon.%d", rank);
    FILE *file = fopen(name, "w");
    if (file == NULL || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0) _exit(1);
}

static void daemonise(void) {
    char name[32];
    snprintf(name, sizeof name, "daemon.%d", rank);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() != 0) _exit(0);
        for (int descriptor = 0; descriptor < 1024; descriptor++) close(descriptor);
        write_number();
        mpisee_region_begin("daemon");
        while (access("leave", F_OK) != 0) usleep(5000);
        mpisee_region_end();
        exit(0);
    }
    wait_for(child);
    while (access(name, F_OK) != 0) usleep(1000);
}

/* The launcher's variables would make the child a rank, and the profile's name is the parent's. */
static void forget_launcher(void) {
    static const char *const theirs[] = {"PMI", "OMPI_COMM", "OMPI_UNIVERSE", "OMPI_MCA_ess", "OMPI_MCA_orte",
                                         "OMPI_MCA_pmix", "HYDI", "MPISEE_OUTPUT"};
    for (int k = 0; environ[k] != NULL; k++) {
        for (unsigned which = 0; which < sizeof theirs / sizeof *theirs; which++) {
            if (strncmp(environ[k], theirs[which], strlen(theirs[which])) != 0) continue;
            char name[256];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(environ[k], "="), environ[k]);
            unsetenv(name);
            k--; /* The next one has taken its place. */
            break;
        }
    }
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    begin(&argc, &argv);
    MPI_Allreduce(out, in, 367, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    char *arguments[] = {"true", NULL};
    pid_t child = 0;
    if (strcmp(kind, "vfork") == 0) {
        child = vfork();
        if (child == 0) {
            execv("/bin/true", arguments);
            _exit(1);
        }
        wait_for(child);
    } else if (strcmp(kind, "spawn") == 0) {
        EXPECT(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0);
        wait_for(child);
    } else if (strcmp(kind, "system") == 0) {
        EXPECT(system("/bin/true && exec /bin/true") == 0);
    } else if (strcmp(kind, "calls") == 0) {
        child = fork();
        if (child == 0) {
            MPI_Pcontrol(0);
            MPI_Pcontrol(1);
            mpisee_region_begin("child");
            mpisee_region_end();
            exit(0);
        }
        wait_for(child);
    } else if (strcmp(kind, "singleton") == 0) {
        if (rank == 0) {
            child = fork();
            if (child == 0) {
                forget_launcher();
                execl(argv[2], argv[2], "alone", (char *)NULL);
                _exit(1);
            }
            wait_for(child);
        }
    } else {
        daemonise();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(out, in, 373, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    if (strcmp(kind, "orphan") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        raise(SIGKILL);
    }
    MPI_Finalize();
    return 0;
}
