/* The main thread only begins and ends MPI. In each round two helpers call MPI, live together, and end; then the main thread
 * goes on alone. Rank 0 prints bounds of how long helpers lived, all together, and of how long one of them lived. */
#include "program.h"
#include <pthread.h>
#include <unistd.h>

enum { ROUNDS = 2, HELPERS = 2 };

static pthread_barrier_t all_live;
static double began[HELPERS], ended[HELPERS];

static void *help(void *argument) {
    static char out[HELPERS][757], in[HELPERS][757];
    int number = *(int *)argument, bytes = 751 + number;
    MPI_Sendrecv(out[number], bytes, MPI_BYTE, 0, number, in[number], bytes, MPI_BYTE, 0, number, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    began[number] = MPI_Wtime();
    pthread_barrier_wait(&all_live);
    usleep((30 + 20 * number) * 1000);
    ended[number] = MPI_Wtime();
    return argument;
}

int main(int argc, char **argv) {
    int provided, numbers[HELPERS] = {0, 1};
    double around_s = 0, lived_s = 0, one_lived_s = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    EXPECT(provided == MPI_THREAD_MULTIPLE);
    pthread_barrier_init(&all_live, NULL, HELPERS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t helpers[HELPERS];
        double since = MPI_Wtime();
        for (int at = 0; at < HELPERS; at++) EXPECT(pthread_create(&helpers[at], NULL, help, &numbers[at]) == 0);
        for (int at = 0; at < HELPERS; at++) pthread_join(helpers[at], NULL);
        around_s += MPI_Wtime() - since;
        for (int at = 0; at < HELPERS; at++) lived_s += ended[at] - began[at];
        one_lived_s += (ended[0] > ended[1] ? ended[0] : ended[1]) - (began[0] < began[1] ? began[0] : began[1]);
        usleep(100 * 1000);
    }
    if (rank == 0) {
        printf("all lived from %.9f to %.9f s\n", lived_s, HELPERS * around_s);
        printf("one lived from %.9f to %.9f s\n", one_lived_s, around_s);
    }
    MPI_Finalize();
    return 0;
}
