// An MPI library that does nothing: every PMPI function notes the words that it is called with. It stands in for
// Open MPI (-DOPEN_MPI) or for MPICH, whose handles and statuses it has; LIBRARY_VERSION is what it says that it is.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// An argument, in a register or its 8 bytes of the stack.
typedef uintptr_t word;

enum { MOST_ARGUMENTS = 16 };

struct parameter {
    const char *name;
    // i: the lower half of the word counts. l: all of it, a number. h: all of it, a handle. p: a pointer.
    char how;
    // Which handle it is or points to: Communicator, File, Message, Request, Window, or o for any other. Where it
    // points to numbers: i or l.
    char what;
    // Of what a pointer points to: r is read by the call, w written, b both.
    char direction;
};

struct function {
    const char *name;
    bool interposed;
    int parameters;
    struct parameter parameter[MOST_ARGUMENTS];
};

extern const struct function functions[];
extern const int function_count;

// The call that is watched.
struct watch {
    // The function, by its index; negative for none. Others are answered as an MPI would.
    int function;
    // What it returns. If that is MPI_SUCCESS it also writes what a call that succeeds does.
    int code;
    // How often it was called, and with which words at last.
    int calls;
    word words[MOST_ARGUMENTS];
    // The arguments that it should have, and another function that was called with them, if there was one.
    const word *given;
    const char *other;
};

struct watch *watch(void);

// Whether a function sees a difference between what it is given and what it should be.
bool differs(const struct parameter *parameter, word one, word other);

// What each PMPI function does.
word called(int function, const word *words);

// MPI_COMM_WORLD and MPI_COMM_SELF.
word world(void);
word self(void);

// A handle that nothing else has, and handles as they lie in memory.
word fresh(char what);
size_t width(char what);
void store(word handle, char what, void *place);
word load(char what, const void *place);
