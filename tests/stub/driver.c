// Calls every MPI function that the preloaded libmpisee.so exports, for C and for Fortran, in each
// of its modes, and compares what comes out of it, in the stub, with what went in, and the state of
// the thread after the call with that before. The arguments are the functions that begin and end
// MPI.

#include "thread_state.h"

#include "stub.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Memory behind pointers: by depth, since a call's objects are made by other calls; by position of
// the argument.
static char places[2][MOST_ARGUMENTS][PLACE] __attribute__((aligned(64)));

// True if the profiler must know the objects that it is given, and those that are given more than
// once.
static bool tracking;
static word window, file;
// True if Fortran's error code is left away where it may be.
static bool without_code;

static const char *mode;
enum { MOST_FUNCTIONS = 8192 };
// Of so many calls one lasts so long that the profiler looks where it comes from.
enum { LONG_EACH = 64 };
static bool driven[MOST_FUNCTIONS];
static int failures;

typedef word shim(word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word);

static shim *find(const char *name) { return (shim *)dlsym(RTLD_DEFAULT, name); }

// More arguments than a function has do no harm: the caller takes them away again.
static int call(const char *name, shim *shim, const word *w) {
    int returned;
    const char *changed;
    pthread_cleanup_push(cancelled, &name);
    set_state();
    returned = (int)shim(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14],
                         w[15]);
    changed = changed_state();
    pthread_cleanup_pop(0);
    if (changed != NULL) {
        fprintf(stderr, "%s, %s: it changed %s\n", name, mode, changed);
        failures++;
    }
    return returned;
}

static int index_of(const char *name) {
    for (int index = 0; index < function_count; index++)
        if (strcmp(functions[index].name, name) == 0) return index;
    fprintf(stderr, "the stub has no %s\n", name);
    exit(2);
}

static void prepare(const struct function *function, word *words, int depth);

// An object whose creation the profiler has seen, if it stands in for the function that makes it.
static word make(const char *maker, char what) {
    const struct function *function = &functions[index_of(maker)];
    shim *shim = find(maker);
    if (shim == NULL) return fresh(what);
    word words[MOST_ARGUMENTS] = {0};
    prepare(function, words, 1);
    call(maker, shim, words);
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

// An object that the profiler tracks, for a call that leaves it as it is; 0 for what it keeps no
// account of.
static word known_object(const struct function *function, int at) {
    bool is_second = false;
    for (int before = 0; before < at; before++) is_second |= function->parameter[before].what == 'C';
    switch (function->parameter[at].what) {
    case 'C': return is_second ? self() : world();
    case 'F': return file;
    case 'W': return window;
    case 'M': case 'R': return object_for(function->standard, function->parameter[at].what);
    default: return 0;
    }
}

static word handle(const struct function *function, int at) {
    word found = tracking ? known_object(function, at) : 0;
    if (found == 0) return 0x5a00000000000000 | (word)(at + 1) << 32 | (word)(at + 1) << 4;
    return width(function->parameter[at].what) == 4 ? with_garbage_above(found) : found;
}

// A number that is not by value. It may be the length of an array, or tell MPI_PCONTROL what to do:
// not to switch.
static int number_for(const struct function *function) {
    return strcmp(function->standard, "MPI_Pcontrol") == 0 ? 3 : 1;
}

// Something sensible at the place of a pointer.
static void fill(const struct function *function, int at, const word *words, char *place) {
    const struct parameter *parameter = &function->parameter[at];
    bool is_fortran = function->language != 'c';
    memset(place, 0, PLACE);
    if (parameter->direction == 'w') return;
    int number = number_for(function);
    for (int nth = 0; nth < PLACE / 8 && parameter->direction == 'r'; nth++) {
        if (parameter->what == 'i' || (is_fortran && parameter->what == 'o')) ((int *)place)[nth] = number;
        if (parameter->what == 'l') ((int64_t *)place)[nth] = number;
    }
    bool is_object = parameter->what != '-' && strchr("CFMRW", parameter->what) != NULL;
    if (!is_object || !tracking) return;
    // An array has its length as the first argument.
    int count = 1;
    if (at > 0 && function->parameter[0].how == 'i') count = (int)words[0];
    for (int nth = 0; nth < count; nth++) {
        bool stays = parameter->direction == 'r';
        word object = stays ? known_object(function, at) : object_for(function->standard, parameter->what);
        if (is_fortran) ((int *)place)[nth] = to_fortran(parameter->what, object);
        else store(object, parameter->what, place + nth * width(parameter->what));
    }
}

static word argument(const struct function *function, int at, const word *words, char *place) {
    switch (function->parameter[at].how) {
    // While calls mean something, numbers are so small that they may be lengths of arrays.
    case 'i': return with_garbage_above(tracking ? 3 + at : 0x41000005 + (at << 8));
    // In Fortran it is the length of a text.
    case 'l': return function->language != 'c' ? 5 + at : 0x0000123400000001 + at;
    case 'h': return handle(function, at);
    default:
        if (function->parameter[at].what == 'e' && without_code) return 0;
        fill(function, at, words, place);
        return (word)place;
    }
}

// Arguments that all differ.
static void prepare(const struct function *function, word *words, int depth) {
    for (int at = 0; at < function->parameters; at++)
        words[at] = argument(function, at, words, places[depth][at]);
}

static void fail(const char *function, const char *what, word expected, word got) {
    fprintf(stderr, "%s, %s: %s: expected %#lx, got %#lx\n", function, mode, what, expected, got);
    failures++;
}

// The code that the call came back with.
static int returned_code(const struct function *function, const word *words, int returned) {
    if (function->language == 'c') return returned;
    for (int at = 0; at < function->parameters; at++)
        if (function->parameter[at].what == 'e') return *(int *)words[at];
    return watch()->code;
}

static void compare(const struct function *function, const word *words, const struct watch *seen) {
    if (seen->calls != 1) fail(function->name, "calls of its profiling twin", 1, seen->calls);
    if (seen->other != NULL) {
        fprintf(stderr, "%s, %s: its arguments went to the twin of %s\n", function->name, mode, seen->other);
        failures++;
    }
    for (int at = 0; at < function->parameters && seen->calls > 0; at++) {
        char what[64];
        snprintf(what, sizeof what, "argument %d (%s)", at + 1, function->parameter[at].name);
        if (differs(&function->parameter[at], words[at], seen->words[at]))
            fail(function->name, what, words[at], seen->words[at]);
        if (seen->changed == at) {
            fprintf(stderr, "%s, %s: %s points to something else\n", function->name, mode, what);
            failures++;
        }
    }
}

static void drive_once(int index, int code) {
    static char before[MOST_ARGUMENTS][PLACE];
    const struct function *function = &functions[index];
    shim *shim = find(function->name);
    word words[MOST_ARGUMENTS] = {0};
    prepare(function, words, 0);
    memcpy(before, places[0], sizeof before);
    *watch() = (struct watch){.function = index, .code = code, .given = words, .before = before, .changed = -1};
    watch()->lasts_long = tracking && index % LONG_EACH == 0;
    int returned = call(function->name, shim, words);
    struct watch seen = *watch();
    if (!without_code) returned = returned_code(function, words, returned);
    watch()->function = -1;
    compare(function, words, &seen);
    if (!without_code && returned != code) fail(function->name, "returned code", code, returned);
}

static void drive(int index, int code) {
    if (find(functions[index].name) == NULL) return;
    driven[index] = true;
    drive_once(index, code);
    if (functions[index].language != 'o') return;
    without_code = true;
    drive_once(index, code);
    without_code = false;
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
        const char *name = functions[index].standard;
        bool begins = strncmp(name, "MPI_Init", 8) == 0 && name[8] != 'i';
        // The last session to end takes the profile with it, where no communicator had all
        // processes.
        bool ends = strcmp(name, "MPI_Finalize") == 0 || strcmp(name, "MPI_Session_finalize") == 0;
        if ((begins && succeeding) || (ends && tracking)) continue;
        // A code of its own for each function, and of no meaning.
        drive(index, succeeding ? 0 : 0x4000 + index);
    }
}

static void control(word level, const char *name) {
    shim *pcontrol = find("MPI_Pcontrol");
    if (pcontrol != NULL) call("MPI_Pcontrol", pcontrol, (word[MOST_ARGUMENTS]){level, (word)name});
}

// MPI_Pcontrol(0) switches recording off.
static void switch_off(void) { control(0, NULL); }

// Regions, one in the other, and recording switched.
static void use_controls(void) {
    mode = "regions";
    for (int times = 0; times < 3; times++) control(0x4d505300, "region");
    for (int times = 0; times < 3; times++) control(0x4d505301, NULL);
    switch_off();
    control(1, NULL);
}

int main(int count, char **arguments) {
    if (count != 3 || function_count > MOST_FUNCTIONS) return 2;
    prepare_state();
    drive_all("before MPI_Init", false, false);
    mode = arguments[1];
    drive(index_of(arguments[1]), 0);
    drive_all("recording, the call succeeds", true, true);
    drive_all("recording, the call fails", true, false);
    use_controls();
    switch_off();
    drive_all("recording is off, the call succeeds", true, true);
    drive_all("recording is off, the call fails", true, false);
    mode = arguments[2];
    drive(index_of(arguments[2]), 0);
    drive_all("after MPI_Finalize", false, false);
    for (int index = 0; index < function_count; index++) {
        if (driven[index]) printf("driven %s\n", functions[index].name);
        else if (functions[index].interposed) printf("absent %s\n", functions[index].name);
    }
    return failures > 0;
}
