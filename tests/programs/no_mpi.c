/* A program without MPI, and built without any of its libraries if linked statically. */
#include <stdio.h>

int main(void) {
    puts("no MPI");
    return 6;
}
