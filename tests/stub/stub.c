// Helpers of the functions of stub_mpi.c.

#include "stub.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WORLD_SIZE = 3 };

#ifdef OPEN_MPI
// Predefined handles are the addresses of these. A profiler that misses one of its own says that it
// is of another MPI, and records nothing.
#define OBJECT(name) char name[64];
OBJECT(ompi_mpi_comm_world)
OBJECT(ompi_mpi_comm_self)
OBJECT(ompi_mpi_comm_null)
OBJECT(ompi_mpi_group_empty)
OBJECT(ompi_mpi_group_null)
OBJECT(ompi_mpi_win_null)
OBJECT(ompi_mpi_file_null)
OBJECT(ompi_mpi_info_null)
OBJECT(ompi_mpi_info_env)
OBJECT(ompi_message_null)
OBJECT(ompi_message_no_proc)
OBJECT(ompi_request_null)
OBJECT(ompi_request_empty)
OBJECT(ompi_mpi_errhandler_null)
OBJECT(ompi_mpi_errors_are_fatal)
OBJECT(ompi_mpi_errors_return)
OBJECT(ompi_mpi_datatype_null)
OBJECT(ompi_mpi_byte)
OBJECT(ompi_mpi_char)
OBJECT(ompi_mpi_packed)
OBJECT(ompi_mpi_int)
OBJECT(ompi_mpi_uint64_t)
OBJECT(ompi_mpi_int64_t)
OBJECT(ompi_mpi_uint32_t)
OBJECT(ompi_mpi_int32_t)
OBJECT(ompi_mpi_double)
OBJECT(ompi_mpi_op_null)
OBJECT(ompi_mpi_op_max)
OBJECT(ompi_mpi_op_min)
OBJECT(ompi_mpi_op_sum)
OBJECT(ompi_mpi_op_no_op)
OBJECT(ompi_mpi_op_replace)
enum { CART = 1, GRAPH = 2, DIST_GRAPH = 3, UNDEFINED = -32766 };
#elif defined STANDARD
enum { CART = 211, GRAPH = 212, DIST_GRAPH = 213, UNDEFINED = -32766 };
#else
enum { CART = 2, GRAPH = 1, DIST_GRAPH = 3, UNDEFINED = -32766 };
#endif

word world(void) {
#ifdef OPEN_MPI
    return (word)ompi_mpi_comm_world;
#elif defined STANDARD
    return 0x101;
#else
    return 0x44000000;
#endif
}

// MPI_COMM_NULL.
static word nobody(void) {
#ifdef OPEN_MPI
    return (word)ompi_mpi_comm_null;
#elif defined STANDARD
    return 0x100;
#else
    return 0x04000000;
#endif
}

word self(void) {
#ifdef OPEN_MPI
    return (word)ompi_mpi_comm_self;
#elif defined STANDARD
    return 0x102;
#else
    return 0x44000001;
#endif
}

size_t width(char what) {
#ifndef MPICH
    (void)what;
    return 8;
#else
    // Files are pointers in every MPI.
    return what == 'F' ? 8 : 4;
#endif
}

void store(word handle, char what, void *place) { memcpy(place, &handle, width(what)); }

word load(char what, const void *place) {
    word handle = 0;
    memcpy(&handle, place, width(what));
    return handle;
}

// A communicator's handle encodes its kind: the last digit is its topology, or INTER.
enum { OF_CART = 1, OF_GRAPH = 2, OF_DIST_GRAPH = 3, INTER = 8 };

enum { NUMBERED = 0x520000000000 };

// The upper bits are such that it is no predefined handle: of MPICH's, they tell where the object
// is.
word fresh(char what) {
    static word count;
    word own = __atomic_add_fetch(&count, 16, __ATOMIC_RELAXED);
    return (width(what) == 8 ? NUMBERED : 0x84000000) + own;
}

// In Fortran a handle that is a pointer in C is a number.
int to_fortran(char what, word handle) {
    if (width(what) == 4) return (int)handle;
    return handle == world() ? 0 : handle == self() ? 1 : (int)(handle - NUMBERED);
}

static word from_fortran(char what, int number) {
    if (width(what) == 4) return (unsigned)number;
    if (what == 'C' && number < 2) return number == 0 ? world() : self();
    return NUMBERED + number;
}

static word sort_of_communicator(const char *creator) {
    static const char *const between_groups[] = {"MPI_Intercomm_create", "MPI_Comm_spawn", "MPI_Comm_accept",
                                                 "MPI_Comm_connect", "MPI_Comm_join"};
    for (size_t at = 0; at < sizeof between_groups / sizeof *between_groups; at++)
        if (strncmp(creator, between_groups[at], strlen(between_groups[at])) == 0) return INTER;
    if (strncmp(creator, "MPI_Cart_", 9) == 0) return OF_CART;
    if (strncmp(creator, "MPI_Graph_", 10) == 0) return OF_GRAPH;
    if (strncmp(creator, "MPI_Dist_graph_", 15) == 0) return OF_DIST_GRAPH;
    return 0;
}

static int topology(word communicator) {
    switch (communicator % 16) {
    case OF_CART: return CART;
    case OF_GRAPH: return GRAPH;
    case OF_DIST_GRAPH: return DIST_GRAPH;
    default: return UNDEFINED;
    }
}

// Where a function of Fortran stores its error code.
static int *error_place(const struct function *function, const word *words) {
    for (int at = 0; at < function->parameters; at++)
        if (function->parameter[at].what == 'e') return (int *)words[at];
    return NULL;
}

// Writes what a call that succeeds writes: new handles, and 1 for numbers, flags and indices.
// Statuses stay zero.
static void succeed(const struct function *function, const word *words) {
    for (int at = 0; at < function->parameters; at++) {
        const struct parameter *parameter = &function->parameter[at];
        void *place = (void *)words[at];
        if (parameter->how != 'p' || parameter->direction != 'w' || place == NULL) continue;
        switch (parameter->what) {
        case 'i': *(int *)place = 1; break;
        case 'l': *(int64_t *)place = 1; break;
        case 'C': case 'F': case 'M': case 'R': case 'W': case 'o': {
            word handle = fresh(parameter->what);
            if (parameter->what == 'C') handle += sort_of_communicator(function->standard);
            if (function->language == 'c') store(handle, parameter->what, place);
            else *(int *)place = to_fortran(parameter->what, handle);
        }
        }
    }
}

// Queries of a profiler that must not count. The answers to others do not matter.
static word answer(const char *name, const word *words) {
    bool is_self = words != NULL && load('C', &words[0]) == self();
    bool is_predefined = is_self || (words != NULL && words[0] == world());
    if (strcmp(name, "MPI_Comm_rank") == 0 || strcmp(name, "MPI_Group_rank") == 0) {
        *(int *)words[1] = 0;
    } else if (strcmp(name, "MPI_Group_size") == 0) {
        *(int *)words[1] = WORLD_SIZE;
    } else if (strcmp(name, "MPI_Comm_size") == 0) {
        *(int *)words[1] = is_self ? 1 : WORLD_SIZE;
    } else if (strcmp(name, "MPI_Comm_get_parent") == 0) {
        store(nobody(), 'C', (void *)words[0]); // It was not spawned.
    } else if (strcmp(name, "MPI_Comm_test_inter") == 0) {
        *(int *)words[1] = !is_predefined && words[0] % 16 == INTER;
    } else if (strcmp(name, "MPI_Topo_test") == 0) {
        *(int *)words[1] = is_predefined ? UNDEFINED : topology(words[0]);
    } else if (strcmp(name, "MPI_Group_translate_ranks") == 0) {
        memcpy((void *)words[4], (void *)words[2], sizeof(int) * (int)words[1]);
    } else if (strcmp(name, "MPI_Get_library_version") == 0) {
        *(int *)words[1] = sprintf((char *)words[0], "%s", LIBRARY_VERSION);
    } else if (strcmp(name, "MPI_Abi_get_version") == 0) {
#ifndef STANDARD
        // It has another interface.
        *(int *)words[0] = *(int *)words[1] = -1;
#endif
    } else if (strcmp(name, "MPI_Status_set_elements") == 0) {
        // Where the families keep the bytes that came.
#ifdef OPEN_MPI
        ((size_t *)words[0])[2] = (int)words[2];
#elif defined STANDARD
        ((int *)words[0])[3] = (int)words[2];
    } else if (strcmp(name, "MPI_Get_elements_x") == 0) {
        *(int64_t *)words[2] = ((int *)words[0])[3];
#else
        ((int *)words[0])[0] = (int)words[2];
#endif
    } else if (strlen(name) > 4 && strcmp(name + strlen(name) - 4, "_f2c") == 0) {
        char what = strcmp(name, "MPI_Comm_f2c") == 0 ? 'C' : strcmp(name, "MPI_File_f2c") == 0 ? 'F' : 'o';
        return from_fortran(what, (int)words[0]);
    }
    return 0;
}

struct watch *watch(void) {
    static struct watch watched = {.function = -1};
    return &watched;
}

bool differs(const struct parameter *parameter, word given, word seen) {
    // Where the program leaves the error code away the twin may get a place for it.
    if (parameter->what == 'e' && given == 0) return false;
    word mask = parameter->how == 'i' ? 0xffffffff : ~(word)0;
    return (given & mask) != (seen & mask);
}

static bool has_the_same_arguments(const struct function *function, const word *words, const word *given) {
    for (int at = 0; at < function->parameters; at++)
        if (differs(&function->parameter[at], given[at], words[at])) return false;
    return function->parameters > 0;
}

// The first argument that points to something else than before the call, among those that are read.
static int changed(const struct function *function, const struct watch *watched) {
    for (int at = 0; at < function->parameters; at++) {
        const struct parameter *parameter = &function->parameter[at];
        bool is_read = parameter->how == 'p' && parameter->direction != 'w' && watched->given[at] != 0;
        if (is_read && memcmp((void *)watched->given[at], watched->before[at], PLACE) != 0) return at;
    }
    return -1;
}

// Works for some milliseconds.
static void work(void) {
    enum { LONG_MS = 4 };
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < LONG_MS);
}

word called(int index, const word *words) {
    const struct function *function = &functions[index];
    struct watch *watched = watch();
    if (index != watched->function) {
        // The profiler's own queries pass memory of its own.
        bool watching = watched->function >= 0 && watched->given != NULL;
        if (watching && has_the_same_arguments(function, words, watched->given)) watched->other = function->name;
        succeed(function, words);
        if (error_place(function, words) != NULL) *error_place(function, words) = 0;
        return answer(function->name, words);
    }
    watched->calls++;
    if (watched->lasts_long) work();
    for (int at = 0; at < function->parameters; at++) watched->words[at] = words[at];
    watched->changed = changed(function, watched);
    if (watched->code == 0) succeed(function, words);
    if (error_place(function, words) != NULL) *error_place(function, words) = watched->code;
    return watched->code;
}
