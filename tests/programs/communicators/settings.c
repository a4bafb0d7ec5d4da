/* Calls on a communicator, a window or a file that move no data; and an operation of the program's own. The argument
 * is the path of a file. */
#include "program.h"

static int asked, freed;

static int query(void *state, MPI_Status *status) {
    (void)state;
    asked++;
    MPI_Status_set_elements(status, MPI_BYTE, 801);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = 7;
    return MPI_SUCCESS;
}

static int let_go(void *state) {
    (void)state;
    freed++;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete) {
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

static void own_operation(void) {
    MPI_Request request;
    MPI_Status status;
    MPI_Grequest_start(query, let_go, cancel, NULL, &request);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, &status);
    expect_status(&status, 7, 7, 801);
    EXPECT(asked >= 1 && freed == 1);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm dup;
    MPI_Info info;
    MPI_Win win;
    char *memory;
    int place = -1, dims[1] = {size}, periods[1] = {0}, index[8], edges[8];
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_set_info(dup, info);
    MPI_Cart_map(dup, 1, dims, periods, &place);
    EXPECT(place >= 0 && place < size);
    for (int at = 0; at < size; at++) {
        index[at] = at + 1;
        edges[at] = (at + 1) % size;
    }
    MPI_Graph_map(dup, size, index, edges, &place);
    EXPECT(place >= 0 && place < size);
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, dup, &memory, &win);
    MPI_Win_set_info(win, info);
    MPI_Win_free(&win);
    MPI_Info_free(&info);
    own_operation();
    if (rank == 0) {
        MPI_File file;
        MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
        MPI_File_close(&file);
        MPI_File_delete(argv[1], MPI_INFO_NULL);
    }
    MPI_Comm_free(&dup);
    MPI_Finalize();
    return 0;
}
