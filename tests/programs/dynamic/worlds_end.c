/* Two worlds of two ranks each, of which the first spawned the second; all are killed when all have made their calls. */
#include "meet.h"
#include <signal.h>

int main(int argc, char **argv) {
    static char out[100], in[100];
    begin(&argc, &argv);
    MPI_Comm parent, children = MPI_COMM_NULL;
    MPI_Comm_get_parent(&parent);
    int is_spawned = parent != MPI_COMM_NULL;
    if (!is_spawned) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    }
    MPI_Allreduce(out, in, is_spawned ? 22 : 11, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    arrive(2 * is_spawned + rank);
    await_arrivals(4);
    raise(SIGKILL);
    return 1;
}
