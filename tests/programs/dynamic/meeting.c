/* Four ranks meet through a port and through a socket: the even ones with the odd ones, 0 with 1 alone. */
#define _GNU_SOURCE
#include "program.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char data[8192];

/* The even ranks accept the odd ones. */
static void through_a_port(void) {
    MPI_Comm half, inter, all;
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    /* Only the root needs to know the port. */
    if (rank > 1) port[0] = 0;
    if (rank % 2 == 0) MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
    else MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
    int other = rank / 2;
    MPI_Sendrecv(data, 1000 + rank, MPI_BYTE, other, 1, data + 4096, 2000, MPI_BYTE, other, 1, inter, MPI_STATUS_IGNORE);
    MPI_Intercomm_merge(inter, rank % 2, &all);
    MPI_Allreduce(MPI_IN_PLACE, data, 101, MPI_BYTE, MPI_BOR, all);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&inter);
    if (rank == 0) MPI_Close_port(port);
    MPI_Comm_free(&half);
}

/* Rank 0 accepts rank 1 over MPI_COMM_SELF of both. */
static void each_for_itself(void) {
    MPI_Comm inter;
    char port[MPI_MAX_PORT_NAME] = "";
    if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
    if (rank < 2) {
        if (rank == 0) MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 2, MPI_COMM_WORLD);
        else MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0) MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        else MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        if (rank == 0) MPI_Send(data, 103, MPI_BYTE, 0, 3, inter);
        else MPI_Recv(data, 103, MPI_BYTE, 0, 3, inter, MPI_STATUS_IGNORE);
        MPI_Comm_disconnect(&inter);
    }
    if (rank == 0) MPI_Close_port(port);
}

/* A socket between ranks 2 and 3. */
static int joined(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, "socket");
    int listening = socket(AF_UNIX, SOCK_STREAM, 0), fd = -1;
    if (rank == 2) {
        EXPECT(bind(listening, (struct sockaddr *)&address, sizeof address) == 0 && listen(listening, 1) == 0);
        MPI_Send(NULL, 0, MPI_BYTE, 3, 4, MPI_COMM_WORLD);
        fd = accept(listening, NULL, NULL);
        close(listening);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, 2, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EXPECT(connect(listening, (struct sockaddr *)&address, sizeof address) == 0);
        fd = listening;
    }
    EXPECT(fd >= 0);
    return fd;
}

static void through_a_socket(void) {
    if (rank < 2) return;
    MPI_Comm inter;
    int fd = joined();
    MPI_Comm_join(fd, &inter);
    if (rank == 3) MPI_Send(data, 107, MPI_BYTE, 0, 5, inter);
    else MPI_Recv(data, 107, MPI_BYTE, 0, 5, inter, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&inter);
    close(fd);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EXPECT(size == 4);
    through_a_port();
    each_for_itself();
    MPI_Barrier(MPI_COMM_WORLD);
    through_a_socket();
    if (rank == 0) puts("all is well");
    MPI_Finalize();
    return 0;
}
