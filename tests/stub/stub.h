// An MPI library that does nothing: every PMPI function notes the words that it is called with, and
// so do the profiling twins of Fortran's functions. It stands in for Open MPI (-DOPEN_MPI), for
// MPICH (-DMPICH), or for an MPI with the standard's own interface (-DSTANDARD), whose handles and
// statuses it has; LIBRARY_VERSION is what it says that it is.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// An argument, in a register or its 8 bytes of the stack.
typedef uintptr_t word;

enum { MOST_ARGUMENTS = 16 };

// Memory behind a pointer, as long as any function needs it.
enum { PLACE = 4096 };

// The twin of a function of mpi_f08 has another name in MPICH.
#ifdef OPEN_MPI
#define EITHER(of_open_mpi, of_mpich) of_open_mpi
#else
#define EITHER(of_open_mpi, of_mpich) of_mpich
#endif

struct parameter {
    const char *name;
    // i: the lower half of the word counts. l: all of it, a number. h: all of it, a handle. p: a
    // pointer.
    char how;
    // Which handle it is or points to: Communicator, File, Message, Request, Window, or o for any
    // other. Where it points to numbers: i or l. Where it points to Fortran's error code: e.
    char what;
    // Of what a pointer points to: r is read by the call, w written, b both.
    char direction;
};

struct function {
    const char *name;
    // Its name in the standard, without regard to language or size of counts.
    const char *standard;
    // c: C. f: Fortran. o: Fortran, and the error code is optional.
    char language;
    bool interposed;
    int parameters;
    const struct parameter *parameter;
};

extern const struct function functions[];
extern const int function_count;

// The call that is watched.
struct watch {
    // The function, by its index; negative for none. Others are answered as an MPI would.
    int function;
    // Return code. If it is MPI_SUCCESS, the function also writes the results of a call that
    // succeeds.
    int code;
    // How often it was called, and with which words at last.
    int calls;
    word words[MOST_ARGUMENTS];
    // The arguments that it should have, and another function that was called with them, if there
    // was one.
    const word *given;
    const char *other;
    // Memory behind its pointers before the call, by position, and the first that points to
    // something else when the call arrives; negative for none.
    const char (*before)[PLACE];
    int changed;
    // Whether the call takes some milliseconds.
    bool lasts_long;
};

struct watch *watch(void);

// Returns whether a function sees a difference between what it should be given and what it is.
bool differs(const struct parameter *parameter, word given, word seen);

// Body of each PMPI function.
word called(int function, const word *words);

// MPI_COMM_WORLD and MPI_COMM_SELF.
word world(void);
word self(void);

// A handle that nothing else has, and handles as they lie in memory.
word fresh(char what);
size_t width(char what);
void store(word handle, char what, void *place);
word load(char what, const void *place);
int to_fortran(char what, word handle);
