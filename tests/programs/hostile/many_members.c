/* Makes communicators of many members, in the order of the arguments: dup, halves (contiguous), fours (rank % 4), reversed
 * (by key), random (keys), create (a group of every second), cart, self (split into single processes), inter. For each
 * it prints the shortest time of five on rank 0 and, if slow_translate.so is preloaded, the comparisons of the rank that
 * made most.
 */
#include "program.h"

extern unsigned long long translate_comparisons(void) __attribute__((weak));

static MPI_Comm make(const char *kind) {
    MPI_Comm comm = MPI_COMM_NULL;
    if (strcmp(kind, "dup") == 0) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (strcmp(kind, "halves") == 0) MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2, rank, &comm);
    if (strcmp(kind, "fours") == 0) MPI_Comm_split(MPI_COMM_WORLD, rank % 4, rank, &comm);
    if (strcmp(kind, "reversed") == 0) MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &comm);
    if (strcmp(kind, "random") == 0) {
        unsigned key = (unsigned)rank * 2654435761u;
        MPI_Comm_split(MPI_COMM_WORLD, 0, (int)(key >> 1), &comm);
    }
    if (strcmp(kind, "self") == 0) MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &comm);
    if (strcmp(kind, "create") == 0) {
        MPI_Group world, second;
        int range[1][3] = {{0, size - 1, 2}};
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_range_incl(world, 1, range, &second);
        MPI_Comm_create(MPI_COMM_WORLD, second, &comm);
        MPI_Group_free(&second);
        MPI_Group_free(&world);
    }
    if (strcmp(kind, "cart") == 0) {
        int dims[2] = {0, 0}, periods[2] = {1, 0};
        MPI_Dims_create(size, 2, dims);
        MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &comm);
    }
    if (strcmp(kind, "inter") == 0) {
        MPI_Comm half;
        MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank < size / 2 ? size / 2 : 0, 7, &comm);
        MPI_Comm_free(&half);
    }
    return comm;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        double shortest = 1e9;
        unsigned long long most = 0;
        for (int time = 0; time < 5; time++) {
            unsigned long long before = translate_comparisons ? translate_comparisons() : 0, made, of_all;
            double start = MPI_Wtime();
            MPI_Comm comm = make(argv[i]);
            double took = MPI_Wtime() - start;
            made = translate_comparisons ? translate_comparisons() - before : 0;
            if (took < shortest) shortest = took;
            MPI_Allreduce(&made, &of_all, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
            if (of_all > most) most = of_all;
            if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
        }
        if (rank == 0) printf("%s %d ranks %.1f us %llu comparisons\n", argv[i], size, 1e6 * shortest, most);
    }
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
