/* Receives that fail for want of room among others that do not, completed by each kind of call. Prints return codes
 * and the errors in statuses, which are those without the profiler. */
#include "program.h"

enum { BYTES = 1901, SHORT = 907, ROOM = 2801, SETS = 5 };

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char data[3][ROOM];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int set = 0; set < SETS; set++) {
        MPI_Request requests[3];
        MPI_Status statuses[3];
        for (int i = 0; i < 3; i++) statuses[i].MPI_ERROR = MPI_SUCCESS;
        if (rank == 1)
            for (int i = 0; i < 3; i++)
                MPI_Irecv(data[i], i == 1 ? SHORT : ROOM, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            for (int i = 0; i < 3; i++) MPI_Send(data[i], BYTES + i, MPI_BYTE, 1, i, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) continue;
        int index = -1, flag = 0, done, indices[3];
        if (set == 0) {
            int code = MPI_Waitall(3, requests, statuses);
            printf("Waitall %d:", class_of(code));
            for (int i = 0; i < 3; i++) printf(" %d", class_of(statuses[i].MPI_ERROR));
            printf("\n");
        } else if (set == 1) {
            printf("Waitall, ignored %d\n", class_of(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)));
        } else if (set == 2) {
            int left = 3;
            int codes[3] = {0};
            while (left) {
                int code = MPI_Waitany(3, requests, &index, &statuses[0]);
                if (index < 0 || index > 2) break;
                codes[index] = class_of(code);
                left--;
            }
            printf("Waitany %d %d %d, left %d\n", codes[0], codes[1], codes[2], left);
        } else if (set == 3) {
            for (int left = 3; left > 0; left -= done) {
                int code = MPI_Waitsome(3, requests, &done, indices, statuses);
                if (code != MPI_SUCCESS) printf("Waitsome %d\n", class_of(code));
                if (done == MPI_UNDEFINED) break;
            }
        } else {
            int code = MPI_SUCCESS;
            while (!flag && code == MPI_SUCCESS) code = MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE);
            printf("Testall, ignored %d\n", class_of(code));
        }
        /* Whatever an error left open. */
        for (int i = 0; i < 3; i++) printf("%d", requests[i] != MPI_REQUEST_NULL);
        printf("\n");
        for (int i = 0; i < 3; i++)
            if (requests[i] != MPI_REQUEST_NULL) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
