/* Communicators that are busy in turn: in_turn SECONDS. On 2 ranks, for SECONDS each: Allreduce of 4096 bytes on a part of the world, which
 * has both; nothing; Sendrecv of 65536 bytes on the world. Calls are made at a steady rate. Rank 0 prints begin and end of each part, in seconds since
 * 1970; each rank writes when its calls ended, to calls.PART.RANK. */
#include "program.h"
#include <time.h>
#include <unistd.h>

static const double BETWEEN_S = 2e-3;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static double begin_part(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    return now();
}

static void tell(const char *part, double begin_s) {
    double end_s = now();
    if (rank == 0) printf("%s %.6f %.6f\n", part, begin_s, end_s);
    fflush(stdout);
}

static void write_ends(const char *part, const double *ends, long calls) {
    char name[64];
    snprintf(name, sizeof name, "calls.%s.%d", part, rank);
    FILE *file = fopen(name, "w");
    EXPECT(file != NULL);
    for (long call = 0; call < calls; call++) fprintf(file, "%.6f\n", ends[call]);
    EXPECT(fclose(file) == 0);
}

static void until(double moment) {
    while (now() < moment) usleep(200);
}

int main(int argc, char **argv) {
    static char out[65536], in[65536];
    EXPECT(argc == 2);
    double part_s = atof(argv[1]);
    long calls = (long)(part_s / BETWEEN_S);
    double *of_part = calloc(calls, sizeof *of_part), *of_world = calloc(calls, sizeof *of_world);
    EXPECT(of_part != NULL && of_world != NULL);
    begin(&argc, &argv);
    EXPECT(size == 2);
    MPI_Comm part;
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &part);

    /* Every second rank is late, so that the others are in MPI for a while. */
    double late_s = rank % 2 * BETWEEN_S / 2, begin_s = begin_part();
    for (long call = 0; call < calls; call++) {
        until(begin_s + BETWEEN_S * call + late_s);
        MPI_Allreduce(out, in, 4096, MPI_BYTE, MPI_BOR, part);
        of_part[call] = now();
    }
    tell("part", begin_s);

    begin_s = begin_part();
    usleep(1e6 * part_s);
    tell("none", begin_s);

    begin_s = begin_part();
    int other = 1 - rank;
    for (long call = 0; call < calls; call++) {
        until(begin_s + BETWEEN_S * call + late_s);
        MPI_Sendrecv(out, 65536, MPI_BYTE, other, 7, in, 65536, MPI_BYTE, other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        of_world[call] = now();
    }
    tell("world", begin_s);
    write_ends("part", of_part, calls);
    write_ends("world", of_world, calls);
    MPI_Comm_free(&part);
    MPI_Finalize();
    return 0;
}
