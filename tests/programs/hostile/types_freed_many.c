/* A thread sends with a datatype that the main thread frees meanwhile, and then makes and frees so many others that the
 * profiler cannot know what became of it. */
#include <mpi.h>
#include <pthread.h>

enum { ROUNDS = 10, SENT = 1003, OTHER = 7, OTHERS = 400 };

static char sent[SENT], received[SENT];
static MPI_Datatype type;

static void *send(void *unused) {
    (void)unused;
    MPI_Ssend(sent, 1, type, 0, 1, MPI_COMM_SELF);
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t sender;
        int is_there = 0;
        MPI_Type_contiguous(SENT, MPI_CHAR, &type);
        MPI_Type_commit(&type);
        pthread_create(&sender, NULL, send, NULL);
        while (!is_there) MPI_Iprobe(0, 1, MPI_COMM_SELF, &is_there, MPI_STATUS_IGNORE);
        MPI_Type_free(&type);
        for (int i = 0; i < OTHERS; i++) {
            MPI_Datatype other;
            MPI_Type_contiguous(OTHER, MPI_CHAR, &other);
            MPI_Type_commit(&other);
            MPI_Type_free(&other);
        }
        MPI_Recv(received, SENT, MPI_CHAR, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        pthread_join(sender, NULL);
    }
    MPI_Finalize();
    return 0;
}
