/* Is linked with MPI and makes the calls that are allowed at any time, but never calls MPI_Init. */
#include <mpi.h>
#include <stdio.h>

int main(void) {
    int version, subversion, begun;
    MPI_Get_version(&version, &subversion);
    MPI_Initialized(&begun);
    puts(version > 2 && !begun ? "never began" : "strange");
    return 4;
}
