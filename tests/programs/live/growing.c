/* Counts that grow, and then stand still: growing. On any number of ranks: Allreduce of 8 bytes on a part of the world that has every second rank, and
 * Sendrecv of 4099 bytes around the world, until there is a file "enough". Then each rank says that it has arrived, and waits for a file "go". */
#include "meet.h"

int main(int argc, char **argv) {
    static char out[4099], in[4099];
    begin(&argc, &argv);
    MPI_Comm part;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
    MPI_Comm_set_name(part, "half");
    long is_enough = 0, anyone = 0, of_part = 0;
    while (!anyone) {
        MPI_Allreduce(&is_enough, &of_part, 1, MPI_LONG, MPI_MAX, part);
        MPI_Sendrecv(out, sizeof out, MPI_BYTE, (rank + 1) % size, 7, in, sizeof in, MPI_BYTE, (rank + size - 1) % size, 7,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        is_enough = access("enough", F_OK) == 0;
        MPI_Allreduce(&is_enough, &anyone, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
        usleep(1000);
    }
    arrive(rank);
    while (access("go", F_OK) != 0) usleep(1000);
    MPI_Finalize();
    return 0;
}
