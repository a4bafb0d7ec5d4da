/* Buffered sends, each to the next process: with the process's buffer, and from MPI 4.1 on with one of a communicator
 * and one of a session. Says which there are. */
#include "program.h"

#define HAS_4_1 (MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1))

static char buffer[65536], data[4001], back[4001];

static void send_around(MPI_Comm comm, int bytes) {
    MPI_Bsend(data, bytes, MPI_BYTE, (rank + 1) % size, 1, comm);
    MPI_Recv(back, sizeof back, MPI_BYTE, (rank + size - 1) % size, 1, comm, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm dup;
    void *detached = NULL;
    int bytes = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Buffer_attach(buffer, sizeof buffer);
    send_around(dup, 601);
#if HAS_4_1
    MPI_Request request;
    MPI_Buffer_flush();
    MPI_Buffer_iflush(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
#endif
    MPI_Buffer_detach(&detached, &bytes);
    EXPECT(detached == buffer && bytes == sizeof buffer);
#if HAS_4_1
    MPI_Comm_attach_buffer(dup, buffer, sizeof buffer);
    send_around(dup, 701);
    MPI_Comm_flush_buffer(dup);
    MPI_Comm_iflush_buffer(dup, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Count many = 0;
    MPI_Comm_detach_buffer_c(dup, &detached, &many);
    EXPECT(detached == buffer && many == sizeof buffer);
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Session_attach_buffer(session, buffer, sizeof buffer);
    MPI_Session_flush_buffer(session);
    MPI_Session_iflush_buffer(session, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Session_detach_buffer(session, &detached, &bytes);
    EXPECT(detached == buffer && bytes == sizeof buffer);
    MPI_Session_finalize(&session);
#endif
    MPI_Comm_free(&dup);
    if (rank == 0) printf("of communicators %d\n", HAS_4_1);
    MPI_Finalize();
    return 0;
}
