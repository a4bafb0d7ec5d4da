// Calls MPI in templates, in one of them by a lambda; the test finds the places by the remarks.
#include "../program.h"
#include <unistd.h>
#include <vector>

namespace halo {

template <typename T, int Width>
struct Exchange {
    std::vector<T> in = std::vector<T>(Width), out = std::vector<T>(Width);

    __attribute__((noinline)) void run(MPI_Comm comm) {
        MPI_Sendrecv(out.data(), Width * sizeof(T), MPI_BYTE, (rank + 1) % size, 3, // run calls
                     in.data(), Width * sizeof(T), MPI_BYTE, (rank + size - 1) % size, 3, comm, MPI_STATUS_IGNORE);
        out[0] = in[0];
    }
};

template <typename Work>
__attribute__((noinline)) double each(int times, Work work) {
    double sum = 0;
    for (int time = 0; time < times; time++) sum += work(time); // each calls
    return sum;
}

} // namespace halo

int main(int argc, char **argv) {
    begin(&argc, &argv);
    halo::Exchange<double, 5> doubles;
    halo::Exchange<char, 7> characters;
    for (int time = 0; time < 10; time++) {
        if (rank == 1) usleep(20 * 1000);
        doubles.run(MPI_COMM_WORLD); // main exchanges doubles
        characters.run(MPI_COMM_WORLD);
    }
    double sum = halo::each(10, [](int time) {
        double own = time, all;
        MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD); // the lambda calls
        return all;
    });
    EXPECT(sum == 45);
    return MPI_Finalize();
}
