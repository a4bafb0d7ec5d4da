/* Creates and frees communicators again and again, of the kind that the first argument says, as often as the second
 * says. On each a message of 101 bytes goes from its first process to its last, and an MPI_Allreduce of 12 bytes
 * follows.
 *
 * When a quarter of the cycles is done, and at the end, each process writes into memory.RANK how many bytes its segment
 * has; its folder is MPISEE_SEGMENTS. CHURN_KILL kills the last process in the cycle of that number.
 */
#include <dirent.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int me, size;
static char message[101], room[101];

static void use(MPI_Comm comm, int inter) {
    int rank, count, in[3] = {0}, out[3];
    if (comm == MPI_COMM_NULL) {
        return;
    }
    MPI_Comm_rank(comm, &rank);
    if (inter) {
        MPI_Comm_remote_size(comm, &count);
        MPI_Sendrecv(message, 101, MPI_BYTE, 0, 5, room, 101, MPI_BYTE, 0, 5, comm, MPI_STATUS_IGNORE);
        return;
    }
    MPI_Comm_size(comm, &count);
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == count - 1) {
        MPI_Irecv(room, 101, MPI_BYTE, 0, 5, comm, &request);
    }
    if (rank == 0) {
        MPI_Send(message, 101, MPI_BYTE, count - 1, 5, comm);
    }
    if (request != MPI_REQUEST_NULL) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Allreduce(in, out, 3, MPI_INT, MPI_SUM, comm);
}

static void let_go(MPI_Comm *comm) {
    if (*comm != MPI_COMM_NULL) {
        MPI_Comm_free(comm);
    }
}

static void by_group(MPI_Comm *comm) {
    /* Of all but the last, in reverse. */
    MPI_Group world, group;
    int ranks[64];
    for (int r = 0; r < size - 1; r++) {
        ranks[r] = size - 2 - r;
    }
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, size - 1, ranks, &group);
    *comm = MPI_COMM_NULL;
    if (me < size - 1) {
        MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, comm);
    }
    MPI_Group_free(&group);
    MPI_Group_free(&world);
}

static void cycle(const char *kind, int k, MPI_Comm *kept) {
    MPI_Comm comm = MPI_COMM_NULL, child = MPI_COMM_NULL;
    int dims[1] = {size}, periods[1] = {1};
    if (strcmp(kind, "split") == 0) {
        /* The last process is in none. */
        MPI_Comm_split(MPI_COMM_WORLD, me == size - 1 ? MPI_UNDEFINED : me % 2, size - me, &comm);
        use(comm, 0);
    } else if (strcmp(kind, "dup") == 0) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        use(comm, 0);
    } else if (strcmp(kind, "idup") == 0) {
        MPI_Request request;
        MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        use(comm, 0);
    } else if (strcmp(kind, "child") == 0) {
        MPI_Comm_split(MPI_COMM_WORLD, me % 2, 0, &comm);
        MPI_Comm_dup(comm, &child);
        MPI_Comm_set_name(child, k % 2 ? "odd" : "even");
        use(child, 0);
    } else if (strcmp(kind, "group") == 0) {
        by_group(&comm);
        use(comm, 0);
    } else if (strcmp(kind, "cart") == 0) {
        MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm);
        use(comm, 0);
    } else if (strcmp(kind, "inter") == 0) {
        /* Between the halves, which live as long as the program. */
        MPI_Intercomm_create(*kept, 0, MPI_COMM_WORLD, me < size / 2 ? size / 2 : 0, 7, &comm);
        int rank;
        MPI_Comm_rank(*kept, &rank);
        if (rank == 0) {
            use(comm, 1);
        }
    } else if (strcmp(kind, "changing") == 0) {
        /* Always other processes, in another order. */
        unsigned draw = (unsigned)k * 2654435761u;
        MPI_Comm_split(MPI_COMM_WORLD, (int)(draw >> (7 + me)) & 1, (int)(draw >> (11 + 2 * me)) % 16, &comm);
        use(comm, 0);
    } else if (strcmp(kind, "chain") == 0) {
        MPI_Comm_dup(*kept, &comm);
        MPI_Comm_free(kept);
        *kept = comm;
        comm = MPI_COMM_NULL;
        use(*kept, 0);
    } else {
        fprintf(stderr, "there is no kind '%s'\n", kind);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    let_go(&child);
    let_go(&comm);
}

/* Bytes of the segment of this process; 0 if there is none. */
static long segment_bytes(void) {
    const char *folder = getenv("MPISEE_SEGMENTS");
    char begin[64], path[4096];
    long bytes = 0;
    snprintf(begin, sizeof begin, "mpisee-%d-%d-", (int)getuid(), (int)getpid());
    DIR *all = folder ? opendir(folder) : NULL;
    for (struct dirent *entry; all && (entry = readdir(all));) {
        if (strncmp(entry->d_name, begin, strlen(begin)) == 0) {
            struct stat stat_of;
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            bytes += stat(path, &stat_of) == 0 ? (long)stat_of.st_size : 0;
        }
    }
    if (all) {
        closedir(all);
    }
    return bytes;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *kind = argc > 1 ? argv[1] : "split";
    const char *kill_at = getenv("CHURN_KILL");
    int cycles = argc > 2 ? atoi(argv[2]) : 100;
    MPI_Comm kept = MPI_COMM_NULL;
    if (strcmp(kind, "inter") == 0) {
        MPI_Comm_split(MPI_COMM_WORLD, me < size / 2, 0, &kept);
    } else if (strcmp(kind, "chain") == 0) {
        MPI_Comm_dup(MPI_COMM_WORLD, &kept);
    }
    char name[32];
    snprintf(name, sizeof name, "memory.%d", me);
    FILE *memory = fopen(name, "w");
    for (int k = 0; k < cycles; k++) {
        if (memory && k == cycles / 4) {
            fprintf(memory, "%ld\n", segment_bytes());
        }
        if (kill_at && k == atoi(kill_at)) {
            /* The others have counted what came before. */
            MPI_Barrier(MPI_COMM_WORLD);
            if (me == size - 1) {
                kill(getpid(), SIGKILL);
            }
        }
        cycle(kind, k, &kept);
    }
    if (memory) {
        fprintf(memory, "%ld\n", segment_bytes());
        fclose(memory);
    }
    let_go(&kept);
    MPI_Finalize();
    return 0;
}
