/* Named regions: nested, entered twice, of one name under two parents, known by a number, ended by an outer end; and
 * ends that end nothing. Each MPI_Allreduce has its own number of bytes, which identifies its region. Prints what it
 * received, which is the same without the profiler.
 */
#include <mpi.h>
#include <mpisee.h>
#include <stdio.h>
#include <unistd.h>

static unsigned long sum;

static void reduce(int bytes) {
    static unsigned char out[8192], in[8192];
    out[bytes - 1] = (unsigned char)bytes;
    MPI_Allreduce(out, in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    sum = sum * 31 + in[bytes - 1];
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    mpisee_region_end();
    reduce(101);

    mpisee_region_begin("solver");
    reduce(103);
    mpisee_region_begin("halo");
    reduce(107);
    usleep(20000);
    mpisee_region_end();
    reduce(109);
    mpisee_region_end();
    reduce(113);
    mpisee_region_begin("solver");
    reduce(127);
    mpisee_region_end();

    mpisee_region_begin("output");
    mpisee_region_begin("halo");
    reduce(131);
    mpisee_region_end();
    mpisee_region_end();
    mpisee_region_end();

    MPI_Pcontrol(MPISEE_REGION_BEGIN_NUMBER + 7);
    reduce(137);
    MPI_Pcontrol(MPISEE_REGION_END_NUMBER + 7);
    MPI_Pcontrol(MPISEE_REGION_BEGIN_NUMBER + 65535);
    mpisee_region_begin("inner");
    reduce(139);
    /* Nothing of this number has begun. */
    MPI_Pcontrol(MPISEE_REGION_END_NUMBER + 8);
    reduce(149);
    /* With it ends what is inside of it. */
    MPI_Pcontrol(MPISEE_REGION_END_NUMBER + 65535);
    reduce(151);

    mpisee_region_begin("read/write");
    reduce(157);
    mpisee_region_end();
    mpisee_region_begin("Löser, \"schnell\"");
    reduce(163);
    mpisee_region_end();

    /* Levels that change nothing. */
    MPI_Pcontrol(2);
    MPI_Pcontrol(5);
    MPI_Pcontrol(-3);
    MPI_Pcontrol(MPISEE_REGION_BEGIN_NUMBER - 1);
    MPI_Pcontrol(MPISEE_REGION_BEGIN_NUMBER + 65536);
    reduce(167);

    mpisee_region_begin("half seen");
    MPI_Pcontrol(0);
    reduce(173);
    MPI_Pcontrol(1);
    reduce(179);
    mpisee_region_end();

    mpisee_region_begin("open at the end");
    reduce(181);
    printf("%lu\n", sum);
    MPI_Finalize();
    return 0;
}
