/* Small sends that are complete when they return, for which MPI libraries give out one handle again and again. 0
 * sends to 1 on W and on a duplicate; the argument says what happens to the requests:
 *
 *   copied    each is stored in the same variable and copied into an array; one Waitall over them, in reverse
 *   in_order  the same; then one Wait after the other, in the order in which they were started
 *   reused    the first is saved, the variable used for the second, which is waited for first
 *   places    a thousand at once, each in its own place; those of the duplicate are waited for first, from the last
 *             to the first, then those of W, by tests */
#include "program.h"

enum { MANY = 1000, BYTES = 17, BYTES_DUP = 19 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[BYTES_DUP];
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    int places = !strcmp(argv[1], "places"), n = places ? MANY : !strcmp(argv[1], "reused") ? 2 : 20;
    static MPI_Request requests[MANY], reversed[MANY];
    MPI_Request request;
    int flag, tests = 0;
    for (int i = 0; i < n; i++) {
        MPI_Comm comm = i % 2 ? dup : MPI_COMM_WORLD;
        int bytes = i % 2 ? BYTES_DUP : BYTES;
        if (rank == 1) {
            MPI_Recv(data, bytes, MPI_BYTE, 0, 0, comm, MPI_STATUS_IGNORE);
        } else if (places) {
            MPI_Isend(data, bytes, MPI_BYTE, 1, 0, comm, &requests[i]);
        } else {
            MPI_Isend(data, bytes, MPI_BYTE, 1, 0, comm, &request);
            requests[i] = request;
            reversed[n - 1 - i] = request;
        }
    }
    if (rank == 0) {
        if (!strcmp(argv[1], "copied")) {
            MPI_Waitall(n, reversed, MPI_STATUSES_IGNORE);
        } else if (!strcmp(argv[1], "in_order")) {
            for (int i = 0; i < n; i += 2) {
                MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
                for (flag = 0; !flag; tests++) MPI_Test(&requests[i + 1], &flag, MPI_STATUS_IGNORE);
            }
        } else if (!strcmp(argv[1], "reused")) {
            for (flag = 0; !flag; tests++) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        } else {
            for (int i = n - 1; i > 0; i -= 2)
                for (flag = 0; !flag; tests++) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
            for (int i = 0; i < n; i += 2) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        }
        printf("tests %d\n", tests);
    }
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
