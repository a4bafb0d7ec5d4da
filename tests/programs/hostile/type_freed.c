/* A thread frees a derived datatype, and makes another one in its place, while the main thread is in a blocking send that
 * uses it. MPI 4.1, 5.1.9: any communication that is currently using it will complete normally.
 * Right: both ranks print "ok"; rank 0 has sent 20 messages of 400000 bytes. */
#include "common.h"
#include <pthread.h>

enum { ELEMENTS = 100000 };
static MPI_Datatype type;

static void *free_it(void *nothing) {
    int token;
    MPI_Datatype other;
    /* Rank 1 has seen the message: the send is in progress. */
    MPI_Recv(&token, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&type);
    MPI_Type_contiguous(3, MPI_CHAR, &other);
    MPI_Send(&token, 1, MPI_INT, 1, 8, MPI_COMM_WORLD);
    MPI_Type_free(&other);
    return nothing;
}

int main(int argc, char **argv) {
    static int data[2 * ELEMENTS];
    int rank, token = 0;
    pthread_t thread;
    watchdog();
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level < MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < 20; round++) {
        if (rank == 0) {
            MPI_Type_vector(ELEMENTS, 1, 2, MPI_INT, &type);
            MPI_Type_commit(&type);
            MPI_Datatype used = type;
            pthread_create(&thread, NULL, free_it, NULL);
            MPI_Ssend(data, 1, used, 1, 1, MPI_COMM_WORLD);
            pthread_join(thread, NULL);
        } else {
            MPI_Probe(0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&token, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
            MPI_Recv(&token, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(data, ELEMENTS, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    ok(rank);
    MPI_Finalize();
    return 0;
}
