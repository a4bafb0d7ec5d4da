/* Is linked with MPI and asks it what may be asked at any time, but never begins. */
#include <mpi.h>
#include <stdio.h>

int main(void) {
    int version, subversion, begun;
    MPI_Get_version(&version, &subversion);
    MPI_Initialized(&begun);
    puts(version > 2 && !begun ? "never began" : "strange");
    return 4;
}
