/* The first thread of each process ends after it has begun MPI, and another one ends MPI and the process. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernel shows the first thread as a zombie once it has ended. */
static void wait_for_first_thread(void) {
    char state = 'R';
    while (state != 'Z') {
        FILE *stat = fopen("/proc/self/stat", "r");
        char line[512] = "";
        if (stat && fgets(line, sizeof line, stat)) state = strrchr(line, ')')[2];
        if (stat) fclose(stat);
        usleep(1000);
    }
}

static void *work(void *unused) {
    static char out[433], in[433];
    wait_for_first_thread();
    MPI_Allreduce(out, in, sizeof in, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    MPI_Finalize();
    exit(0);
    return unused;
}

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL)) return 3;
    pthread_exit(NULL);
}
