/* Calls that MPI refuses: null arrays, null places for results, negative counts, with results that nobody set. Each prints
 * whether it was refused; a receive that is open meanwhile stays open and completes with its bytes. */
#include "program.h"
#include <limits.h>

enum { BYTES = 1931 };

static void tell(const char *call, int code) { printf("%s: %s\n", call, code ? "refused" : "taken"); }

int main(int argc, char **argv) {
    begin(&argc, &argv);
    static char in[BYTES], out[BYTES];
    MPI_Request open, null[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status, statuses[2];
    MPI_Message message = MPI_MESSAGE_NULL;
    (void)message;
    int indices[2] = {1 << 30, -7}, outcount = INT_MAX, index = INT_MAX, flag = INT_MAX;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Irecv(in, BYTES, MPI_BYTE, 0, 0, MPI_COMM_SELF, &open);

    tell("Waitsome -1", MPI_Waitsome(-1, &open, &outcount, indices, statuses));
    tell("Testsome -1", MPI_Testsome(-1, &open, &outcount, indices, statuses));
    tell("Waitall -1", MPI_Waitall(-1, &open, statuses));
    tell("Testall -1", MPI_Testall(-1, &open, &flag, statuses));
    tell("Waitany -1", MPI_Waitany(-1, &open, &index, &status));
    tell("Testany -1", MPI_Testany(-1, &open, &index, &flag, &status));
    tell("Startall -1", MPI_Startall(-1, &open));

    tell("Waitsome null", MPI_Waitsome(2, NULL, &outcount, indices, statuses));
    tell("Testsome null", MPI_Testsome(2, NULL, &outcount, indices, statuses));
    tell("Waitall null", MPI_Waitall(2, NULL, MPI_STATUSES_IGNORE));
    tell("Testall null", MPI_Testall(2, NULL, &flag, statuses));
    tell("Waitany null", MPI_Waitany(2, NULL, &index, &status));
    tell("Testany null", MPI_Testany(2, NULL, &index, &flag, &status));
    tell("Startall null", MPI_Startall(2, NULL));
    tell("Wait null", MPI_Wait(NULL, &status));
    tell("Test null", MPI_Test(NULL, &flag, &status));
    tell("Start null", MPI_Start(NULL));
    tell("Request_free null", MPI_Request_free(NULL));
    tell("Cancel null", MPI_Cancel(NULL));
#ifndef OPEN_MPI /* finds no error handler for the first two, and does not look at the flag */
    tell("Mrecv null", MPI_Mrecv(in, BYTES, MPI_BYTE, NULL, &status));
    tell("Imrecv null", MPI_Imrecv(in, BYTES, MPI_BYTE, NULL, null));
    tell("Improbe, no flag", MPI_Improbe(0, 1, MPI_COMM_SELF, NULL, &message, &status));
#endif

    tell("Waitsome, no outcount", MPI_Waitsome(1, &open, NULL, indices, statuses));
    tell("Testsome, no outcount", MPI_Testsome(1, &open, NULL, indices, statuses));
    tell("Waitsome, no indices", MPI_Waitsome(1, &open, &outcount, NULL, statuses));
    tell("Waitany, no index", MPI_Waitany(2, null, NULL, &status));
    tell("Testany, no index", MPI_Testany(1, &open, NULL, &flag, &status));
    tell("Testany, no flag", MPI_Testany(1, &open, &index, NULL, &status));
    tell("Testall, no flag", MPI_Testall(1, &open, NULL, statuses));
    tell("Test, no flag", MPI_Test(&open, NULL, &status));
#ifdef HAS_STATUS_OF_MANY
    tell("Request_get_status_all null", MPI_Request_get_status_all(2, NULL, &flag, statuses));
    tell("Request_get_status_any null", MPI_Request_get_status_any(2, NULL, &index, &flag, &status));
    tell("Request_get_status_some null", MPI_Request_get_status_some(2, NULL, &outcount, indices, statuses));
#endif

    EXPECT(open != MPI_REQUEST_NULL);
    MPI_Send(out, BYTES, MPI_BYTE, 0, 0, MPI_COMM_SELF);
    MPI_Wait(&open, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
