/* Collective calls with several roots, blocking and not, on communicators with an order of their own. */
#include "../program.h"

enum { WHOLE = 3011, PART = 1501, OWN = 701 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(size == 3);
    static char whole[WHOLE], part[PART], parts[3 * PART], own[OWN];
    MPI_Comm backwards;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &backwards);
    for (int step = 0; step < 50; step++) {
        MPI_Request request;
        MPI_Bcast(whole, WHOLE, MPI_BYTE, step % 2, MPI_COMM_WORLD);
        MPI_Igather(part, PART, MPI_BYTE, parts, PART, MPI_BYTE, 2, backwards, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Bcast(own, OWN, MPI_BYTE, 0, MPI_COMM_SELF);
    }
    MPI_Comm_free(&backwards);
    MPI_Finalize();
}
