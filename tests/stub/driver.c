// Calls every MPI function that the preloaded libmpisee.so exports, in each of its modes, and compares what comes
// out of it, in the stub, with what went in. The argument is the function that initialises MPI.

#define _GNU_SOURCE
#include "stub.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What pointers point to: by depth, since what a call needs is made by other calls; by position of the argument.
enum { PLACE = 4096 };
static char places[2][MOST_ARGUMENTS][PLACE] __attribute__((aligned(64)));

// Whether the profiler must know the objects that it is given, and those that are given more than once.
static bool tracking;
static word window, file;

static const char *mode;
static bool driven[4096];
static int failures;

typedef word shim(word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word);

static shim *find(const char *name) { return (shim *)dlsym(RTLD_DEFAULT, name); }

// More arguments than a function has do no harm: the caller takes them away again.
static int call(shim *shim, const word *w) {
    return (int)shim(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14],
                     w[15]);
}

static int index_of(const char *name) {
    for (int index = 0; index < function_count; index++)
        if (strcmp(functions[index].name, name) == 0) return index;
    fprintf(stderr, "the stub has no %s\n", name);
    exit(2);
}

static void prepare(const struct function *function, word *words, int depth);

// An object of which the profiler knows where it comes from, if it stands in for the function that makes it.
static word make(const char *maker, char what) {
    const struct function *function = &functions[index_of(maker)];
    shim *shim = find(maker);
    if (shim == NULL) return fresh(what);
    word words[MOST_ARGUMENTS] = {0};
    prepare(function, words, 1);
    call(shim, words);
    for (int at = 0; at < function->parameters; at++)
        if (function->parameter[at].what == what && function->parameter[at].direction == 'w')
            return load(what, (void *)words[at]);
    fprintf(stderr, "%s makes no object of the kind %c\n", maker, what);
    exit(2);
}

// A new object that suits the function.
static word object_for(const char *name, char what) {
    bool of_partitions = strncmp(name, "MPI_Pready", 10) == 0 || strcmp(name, "MPI_Parrived") == 0;
    switch (what) {
    case 'C': return make("MPI_Comm_dup", what);
    case 'F': return make("MPI_File_open", what);
    case 'M': return make("MPI_Mprobe", what);
    case 'W': return make("MPI_Win_create", what);
    case 'R':
        if (strncmp(name, "MPI_Start", 9) == 0) return make("MPI_Send_init", what);
        return make(of_partitions ? "MPI_Psend_init" : "MPI_Irecv", what);
    default: return fresh(what);
    }
}

// Bits of a register that no callee looks at.
static word with_garbage_above(word low) { return 0xabcd123400000000 | (low & 0xffffffff); }

static word handle(const struct function *function, int at) {
    const struct parameter *parameter = &function->parameter[at];
    word found = 0x5a00000000000000 | (word)(at + 1) << 32 | (word)(at + 1) << 4;
    if (!tracking) return found;
    bool is_second = false;
    for (int before = 0; before < at; before++) is_second |= function->parameter[before].what == 'C';
    switch (parameter->what) {
    case 'C': found = is_second ? self() : world(); break;
    case 'F': found = file; break;
    case 'W': found = window; break;
    case 'M': case 'R': found = object_for(function->name, parameter->what); break;
    }
    return width(parameter->what) == 4 ? with_garbage_above(found) : found;
}

// Something sensible at the place of a pointer.
static void fill(const struct function *function, int at, const word *words, char *place) {
    const struct parameter *parameter = &function->parameter[at];
    memset(place, 0, PLACE);
    if (parameter->direction == 'r') {
        for (int number = 0; number < PLACE / 8; number++) {
            if (parameter->what == 'i') ((int *)place)[number] = 1;
            if (parameter->what == 'l') ((int64_t *)place)[number] = 1;
        }
    }
    bool is_object = parameter->what != '-' && strchr("CFMRW", parameter->what) != NULL;
    if (parameter->direction != 'b' || !is_object || !tracking) return;
    // An array has its length as the first argument.
    int count = at > 0 && function->parameter[0].how == 'i' ? (int)words[0] : 1;
    for (int nth = 0; nth < count; nth++)
        store(object_for(function->name, parameter->what), parameter->what,
              place + nth * width(parameter->what));
}

// Arguments that all differ.
static void prepare(const struct function *function, word *words, int depth) {
    for (int at = 0; at < function->parameters; at++) {
        switch (function->parameter[at].how) {
        // While calls mean something, numbers are so small that they may be lengths of arrays.
        case 'i': words[at] = with_garbage_above(tracking ? 3 + at : 0x41000005 + (at << 8)); break;
        case 'l': words[at] = 0x0000123400000001 + at; break;
        case 'h': words[at] = handle(function, at); break;
        case 'p':
            words[at] = (word)places[depth][at];
            fill(function, at, words, places[depth][at]);
            break;
        }
    }
}

static void fail(const char *function, const char *what, word expected, word got) {
    fprintf(stderr, "%s, %s: %s: expected %#lx, got %#lx\n", function, mode, what, expected, got);
    failures++;
}

static void drive(int index, int code) {
    const struct function *function = &functions[index];
    shim *shim = find(function->name);
    if (shim == NULL) return;
    driven[index] = true;
    word words[MOST_ARGUMENTS] = {0};
    prepare(function, words, 0);
    *watch() = (struct watch){.function = index, .code = code, .given = words};
    int returned = call(shim, words);
    struct watch seen = *watch();
    watch()->function = -1;
    if (seen.calls != 1) fail(function->name, "calls of its PMPI twin", 1, seen.calls);
    if (seen.other != NULL) {
        fprintf(stderr, "%s, %s: its arguments went to P%s\n", function->name, mode, seen.other);
        failures++;
    }
    if (returned != code) fail(function->name, "returned code", code, returned);
    for (int at = 0; at < function->parameters && seen.calls > 0; at++) {
        if (!differs(&function->parameter[at], words[at], seen.words[at])) continue;
        char what[64];
        snprintf(what, sizeof what, "argument %d (%s)", at + 1, function->parameter[at].name);
        fail(function->name, what, words[at], seen.words[at]);
    }
}

// Calls every function but those that begin or end MPI, unless they fail or nothing is begun.
static void drive_all(const char *in_mode, bool while_tracking, bool succeeding) {
    mode = in_mode;
    tracking = while_tracking;
    if (tracking) {
        window = object_for("", 'W');
        file = object_for("", 'F');
    }
    for (int index = 0; index < function_count; index++) {
        const char *name = functions[index].name;
        bool begins = strncmp(name, "MPI_Init", 8) == 0 && name[8] != 'i';
        // The last session to end takes the profile with it, where no communicator told of all processes.
        bool ends = strcmp(name, "MPI_Finalize") == 0 || strcmp(name, "MPI_Session_finalize") == 0;
        if ((begins && succeeding) || (ends && tracking)) continue;
        // A code of its own for each function, and of no meaning.
        drive(index, succeeding ? 0 : 0x4000 + index);
    }
}

// MPI_Pcontrol(0) switches recording off.
static void switch_off(void) {
    shim *pcontrol = find("MPI_Pcontrol");
    if (pcontrol != NULL) call(pcontrol, (word[MOST_ARGUMENTS]){0});
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    drive_all("before MPI_Init", false, false);
    mode = "MPI_Init";
    drive(index_of(arguments[1]), 0);
    drive_all("recording, the call succeeds", true, true);
    drive_all("recording, the call fails", true, false);
    switch_off();
    drive_all("recording is off, the call succeeds", true, true);
    drive_all("recording is off, the call fails", true, false);
    mode = "MPI_Finalize";
    drive(index_of("MPI_Finalize"), 0);
    drive_all("after MPI_Finalize", false, false);
    for (int index = 0; index < function_count; index++) {
        if (driven[index]) printf("driven %s\n", functions[index].name);
        else if (functions[index].interposed) printf("absent %s\n", functions[index].name);
    }
    return failures > 0;
}
