/* Reads MPI's own variables by MPI_T, as a program may: a performance variable of MPI_COMM_WORLD (or of no object) whose name is the first argument at the end
 * of a region in which receives are posted and reductions made, and the control variable of the second argument, to which it adds 1 at the end. Prints both. "-" is no
 * variable. What it is told of the interface for tools has to be the same without the profiler.
 */
#include <mpi.h>
#include <mpisee.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POSTED = 3, REDUCTIONS = 5, MOST = 64 };

static MPI_T_pvar_session session;
static MPI_T_pvar_handle handle;
static int values;

static int performance(const char *wanted) {
    int count;
    MPI_T_pvar_get_num(&count);
    for (int index = 0; index < count; index++) {
        char name[256];
        int name_length = sizeof name, verbosity, class, bind, read_only, continuous, atomic;
        MPI_Datatype type;
        MPI_T_enum enumeration;
        char description[1024];
        int description_length = sizeof description;
        if (MPI_T_pvar_get_info(index, name, &name_length, &verbosity, &class, &type, &enumeration, description,
                                &description_length, &bind, &read_only, &continuous, &atomic) != MPI_SUCCESS ||
            strcmp(name, wanted) != 0)
            continue;
        MPI_Comm world = MPI_COMM_WORLD;
        MPI_T_pvar_handle_alloc(session, index, bind == MPI_T_BIND_NO_OBJECT ? NULL : (void *)&world, &handle, &values);
        if (!continuous)
            MPI_T_pvar_start(session, handle);
        int size;
        MPI_Type_size(type, &size);
        return size;
    }
    fprintf(stderr, "there is no %s\n", wanted);
    exit(1);
}

static double sum(int size) {
    unsigned char bytes[MOST * 8] = {0};
    double sum = 0;
    MPI_T_pvar_read(session, handle, bytes);
    for (int at = 0; at < values; at++)
        sum += size == 4 ? (double)((unsigned *)bytes)[at] : (double)((unsigned long *)bytes)[at];
    return sum;
}

static int control(const char *wanted, int add) {
    int index, count, value = -1;
    MPI_T_cvar_handle cvar;
    if (MPI_T_cvar_get_index(wanted, &index) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index, NULL, &cvar, &count) != MPI_SUCCESS)
        return -1;
    MPI_T_cvar_read(cvar, &value);
    if (add) {
        value += add;
        MPI_T_cvar_write(cvar, &value);
        MPI_T_cvar_read(cvar, &value);
    }
    MPI_T_cvar_handle_free(&cvar);
    return value;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks, provided = -1, level = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Query_thread(&level);
    MPI_T_pvar_session_create(&session);
    int size = strcmp(argv[1], "-") ? performance(argv[1]) : 0;
    double before = size ? sum(size) : 0;
    mpisee_region_begin("posted");
    char in[POSTED], out[POSTED] = "abc";
    MPI_Request requests[POSTED];
    for (int at = 0; at < POSTED; at++)
        MPI_Irecv(in + at, 1, MPI_CHAR, (rank + 1) % ranks, at, MPI_COMM_WORLD, requests + at);
    for (int at = 0; at < REDUCTIONS; at++) {
        int one = 1, all;
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    double after = size ? sum(size) : 0;
    mpisee_region_end();
    MPI_Barrier(MPI_COMM_WORLD);
    for (int at = 0; at < POSTED; at++)
        MPI_Send(out + at, 1, MPI_CHAR, (rank + ranks - 1) % ranks, at, MPI_COMM_WORLD);
    MPI_Waitall(POSTED, requests, MPI_STATUSES_IGNORE);
    int first = control(argv[2], 0), then = control(argv[2], 1);
    printf("rank %d provided %d level %d before %.0f after %.0f control %d then %d\n", rank, provided, level, before, after,
           first, then);
    if (size)
        MPI_T_pvar_handle_free(session, &handle);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
