/* Parts between which nobody calls MPI: switched [KIND]. On 4 ranks, three parts of 100 Allreduce each, of 101, 211 and 223 bytes. After the first and
 * the second each rank says that it has arrived and waits for a file, go.1 and go.2. The first call of a part is another one on each rank, unless KIND is
 * "alike"; with "on" or "off" it is an MPI_Pcontrol that switches recording. */
#include "meet.h"
#include <string.h>

static void first_call(int number) {
    int flag = 0;
    MPI_Comm copy;
    switch (number % 4) {
    case 0: MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE); break;
    case 1: MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE); break;
    case 2:
        MPI_Comm_dup(MPI_COMM_SELF, &copy);
        MPI_Comm_free(&copy);
        break;
    default: break;
    }
}

static void part(int bytes) {
    static char out[1024], in[1024];
    for (int call = 0; call < 100; call++) MPI_Allreduce(out, in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
}

static void await(int number) {
    char name[32];
    MPI_Barrier(MPI_COMM_WORLD);
    arrive(size * number + rank);
    snprintf(name, sizeof name, "go.%d", number);
    while (access(name, F_OK) != 0) usleep(1000);
}

int main(int argc, char **argv) {
    const char *kind = argc == 2 ? argv[1] : "different";
    int is_different = strcmp(kind, "different") == 0;
    begin(&argc, &argv);
    EXPECT(size == 4);
    part(101);
    await(1);
    if (strcmp(kind, "on") == 0) MPI_Pcontrol(1);
    if (strcmp(kind, "off") == 0) MPI_Pcontrol(0);
    if (is_different) first_call(rank);
    part(211);
    await(2);
    if (is_different) first_call(rank);
    part(223);
    MPI_Finalize();
    return 0;
}
