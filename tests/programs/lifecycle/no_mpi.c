/* A program without MPI, and built without any of its libraries if linked statically. It exits with its argument. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    puts("no MPI");
    return argc > 1 ? atoi(argv[1]) : 0;
}
