/* Communicators inside of nodes and across them, and a ring in which some messages stay on their node. Prints each
 * rank's node. */
#define _GNU_SOURCE
#include "on_nodes.h"
#include "program.h"

int main(int argc, char **argv) {
    static char out[9000], in[9000];
    begin(&argc, &argv);
    MPI_Comm node, across;
    int in_node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_set_name(node, "node");
    MPI_Comm_rank(node, &in_node);
    MPI_Comm_split(MPI_COMM_WORLD, in_node, rank, &across);
    MPI_Comm_set_name(across, "across");
    for (int time = 0; time < 3; time++) MPI_Bcast(out, 4001, MPI_BYTE, 0, across);
    MPI_Allreduce(out, in, 5003, MPI_BYTE, MPI_BOR, node);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Sendrecv(out, 1000 + rank, MPI_BYTE, next, 0, in, sizeof in, MPI_BYTE, last, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (in_node == 0) MPI_Send(out, 2017, MPI_BYTE, 1, 0, node);
    if (in_node == 1) MPI_Recv(in, sizeof in, MPI_BYTE, 0, 0, node, MPI_STATUS_IGNORE);
    int length;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Get_processor_name(name, &length);
    printf("rank %d is on %s\n", rank, name);
    MPI_Comm_free(&across);
    MPI_Comm_free(&node);
    MPI_Finalize();
    return 0;
}
