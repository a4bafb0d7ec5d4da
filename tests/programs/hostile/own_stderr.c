/* A program that does what it likes with descriptor 2:
 *   closed  closes it; a thread goes on writing to it while communicators are made
 *   data    closes it, so that the next file that it opens has that number, as in a daemon
 *   gone    makes it a pipe without a reader
 *   full    makes it a full pipe, which it reads after MPI_Finalize
 * Right: both ranks print "ok", with all bytes that were written and no others; the profile is whole. */
#define _GNU_SOURCE
#include "common.h"
#include <fcntl.h>
#include <pthread.h>

static volatile int goes_on = 1;
static long written;

static void *warn(void *unused) {
    static const char text[4096];
    while (goes_on)
        if (write(2, text, sizeof text) > 0) written++;
    return unused;
}

static void closed(void) {
    static char data[1 << 14];
    pthread_t thread;
    close(2);
    pthread_create(&thread, NULL, warn, NULL);
    for (int i = 0; i < 400; i++) {
        MPI_Comm copy;
        MPI_Comm_dup(MPI_COMM_SELF, &copy);
        for (int size = 1; size <= 1 << 13; size *= 2) MPI_Bcast(data, size, MPI_BYTE, 0, copy);
        MPI_Comm_free(&copy);
    }
    goes_on = 0;
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    static char text[4096];
    int rank, provided, file = -1, ends[2] = {-1, -1};
    long bytes = 0, more;
    watchdog();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (is(argc, argv, "closed")) closed();
    if (is(argc, argv, "data")) {
        snprintf(text, sizeof text, "data.%d", rank);
        close(2);
        file = open(text, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (file != 2 || write(file, text, 64) != 64) return 1;
    }
    if (is(argc, argv, "gone") || is(argc, argv, "full")) {
        if (pipe(ends) || dup2(ends[1], 2) != 2) return 1;
        close(ends[1]);
        if (is(argc, argv, "gone")) close(ends[0]);
    }
    if (is(argc, argv, "full")) {
        fcntl(2, F_SETFL, O_NONBLOCK);
        while (write(2, text, sizeof text) > 0) {}
        fcntl(2, F_SETFL, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (file == 2) bytes = lseek(file, 0, SEEK_END);
    if (is(argc, argv, "full")) {
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        while ((more = read(ends[0], text, sizeof text)) > 0) bytes += more;
    }
    printf("%ld writes, %ld bytes\n", written, bytes);
    ok(rank);
    return 0;
}
