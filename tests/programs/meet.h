/* Meeting without a call of MPI, through files in the working directory, for programs in which no call may be open when a
 * process ends. */
#pragma once
#include "program.h"
#include <unistd.h>

/* Tells the others that process `number` of them is here. */
static inline void arrive(int number) {
    char name[32];
    snprintf(name, sizeof name, "arrived.%d", number);
    FILE *file = fopen(name, "w");
    EXPECT(file != NULL && fclose(file) == 0);
}

/* Waits for the first `count` of them. */
static inline void await_arrivals(int count) {
    char name[32];
    for (int number = 0; number < count; number++) {
        snprintf(name, sizeof name, "arrived.%d", number);
        while (access(name, F_OK) != 0) usleep(1000);
    }
}

static inline void meet(void) {
    arrive(rank);
    await_arrivals(size);
}
