// Stays where it is until there is a file "go", on 2 ranks: 0 in a Recv, below two templates, 1 in no call.
#include "meet.h"

struct Halo {
    template <typename T>
    __attribute__((noinline)) static void exchange(T number) {
        if (rank == 0) MPI_Recv(&number, sizeof number, MPI_BYTE, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // exchange calls
        if (rank == 1) MPI_Send(&number, sizeof number, MPI_BYTE, 0, 6, MPI_COMM_WORLD);
    }
};

template <typename Policy>
__attribute__((noinline)) void advance() {
    Policy::template exchange<long>(80); // advance calls
    EXPECT(size == 2);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    arrive(rank);
    if (rank == 1) {
        while (access("go", F_OK) != 0) usleep(1000);
    }
    advance<Halo>();
    MPI_Finalize();
    return 0;
}
