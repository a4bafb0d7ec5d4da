/* Files on two communicators, with every way to read and write. One communicator is freed before its file is used. Reads
 * that go beyond the end are done by one process alone: MPICH 4.0 says of a collective one that it read all. */
#include "program.h"

enum { PART = 8192, ROOM = 4 * PART };
static char data[PART], got[PART];

static void expect_bytes(const MPI_Status *status, int bytes) {
    int count = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    EXPECT(count == bytes);
}

static void at_offsets(MPI_File file) {
    MPI_Offset mine = rank * PART;
    MPI_Status status;
    MPI_Datatype spaced;
    MPI_Type_vector(10, 3, 7, MPI_INT, &spaced);
    MPI_Type_commit(&spaced);
    memset(data, 1 + rank, PART);
    MPI_File_write_at(file, mine, data, 1009, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_write_at(file, mine, data, 0, MPI_BYTE, &status);
    expect_bytes(&status, 0);
    MPI_File_write_at(file, mine, data, 3, spaced, MPI_STATUS_IGNORE);
    MPI_File_write_at_all(file, mine, data, 1013, MPI_BYTE, &status);
    expect_bytes(&status, 1013);
    MPI_File_read_at(file, ROOM - 500, got, 2003, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_read_at_all(file, mine, got, 211, MPI_INT, &status);
    expect_bytes(&status, 4 * 211);
    EXPECT(!memcmp(data, got, 4 * 211));
    MPI_Type_free(&spaced);
}

static void at_pointers(MPI_File file) {
    MPI_Offset mine = rank * PART;
    MPI_File_seek(file, mine, MPI_SEEK_SET);
    MPI_File_write(file, data, 1019, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_write_all(file, data, 1021, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_seek(file, mine, MPI_SEEK_SET);
    MPI_File_read(file, got, 1031, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_read_all(file, got, 1033, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_write_shared(file, data, 307, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_write_ordered(file, data, 311, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_read_shared(file, got, 313, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_read_ordered(file, got, 317, MPI_BYTE, MPI_STATUS_IGNORE);
}

static void later(MPI_File file) {
    MPI_Offset mine = rank * PART;
    MPI_Request requests[2];
    MPI_Status status;
    MPI_File_seek(file, mine, MPI_SEEK_SET);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_iwrite_at(file, mine, data, 401, MPI_BYTE, &requests[0]);
    MPI_File_iwrite(file, data, 409, MPI_BYTE, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_File_iread_at(file, mine, got, 421, MPI_BYTE, &requests[0]);
    MPI_Wait(&requests[0], &status);
    expect_bytes(&status, 421);
    MPI_File_iread(file, got, 431, MPI_BYTE, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_File_iwrite_shared(file, data, 433, MPI_BYTE, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_File_iread_shared(file, got, 439, MPI_BYTE, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_File_iwrite_at_all(file, mine, data, 443, MPI_BYTE, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_File_iwrite_all(file, data, 449, MPI_BYTE, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_File_iread_at_all(file, mine, got, 457, MPI_BYTE, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_File_iread_all(file, got, 461, MPI_BYTE, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void in_two_halves(MPI_File file) {
    MPI_Offset mine = rank * PART;
    MPI_Status status;
    MPI_File_write_at_all_begin(file, mine, data, 503, MPI_BYTE);
    MPI_File_write_at_all_end(file, data, &status);
    expect_bytes(&status, 503);
    MPI_File_seek(file, mine, MPI_SEEK_SET);
    MPI_File_write_all_begin(file, data, 509, MPI_BYTE);
    MPI_File_write_all_end(file, data, MPI_STATUS_IGNORE);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_write_ordered_begin(file, data, 521, MPI_BYTE);
    MPI_File_write_ordered_end(file, data, MPI_STATUS_IGNORE);
    MPI_File_read_at_all_begin(file, mine, got, 523, MPI_BYTE);
    MPI_File_read_at_all_end(file, got, MPI_STATUS_IGNORE);
    MPI_File_read_all_begin(file, got, 541, MPI_BYTE);
    MPI_File_read_all_end(file, got, MPI_STATUS_IGNORE);
    MPI_File_read_ordered_begin(file, got, 547, MPI_BYTE);
    MPI_File_read_ordered_end(file, got, MPI_STATUS_IGNORE);
}

enum { HOW = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE };

static void whole_world(int blocking_only) {
    MPI_File file;
    MPI_Offset bytes;
    EXPECT(MPI_File_open(MPI_COMM_WORLD, "no-such-folder/file", HOW, MPI_INFO_NULL, &file) != MPI_SUCCESS);
    MPI_File_open(MPI_COMM_WORLD, "world.data", HOW, MPI_INFO_NULL, &file);
    MPI_File_preallocate(file, ROOM / 2);
    MPI_File_set_size(file, ROOM);
    MPI_File_get_size(file, &bytes);
    EXPECT(bytes == ROOM);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_sync(file);
    at_offsets(file);
    at_pointers(file);
    if (!blocking_only) later(file);
    in_two_halves(file);
    MPI_File_close(&file);
    EXPECT(file == MPI_FILE_NULL);
}

static void halves(void) {
    MPI_Comm half;
    MPI_File file;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_File_open(half, rank % 2 ? "odd.data" : "even.data", HOW, MPI_INFO_NULL, &file);
    MPI_Comm_free(&half);
    MPI_File_write_at(file, rank * PART, data, 601 + rank, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

/* A file opened through PMPI, and an invalid handle, belong to no communicator. */
static void unknown(void) {
    MPI_File file;
    MPI_Request request;
    PMPI_File_open(MPI_COMM_WORLD, "unknown.data", HOW, MPI_INFO_NULL, &file);
    MPI_File_write_at(file, rank * PART, data, 61, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_iwrite_at(file, rank * PART, data, 67, MPI_BYTE, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    EXPECT(MPI_File_sync(MPI_FILE_NULL) != MPI_SUCCESS);
}

/* A file is known, too, that is opened while recording is off. */
static void opened_while_off(void) {
    MPI_File file;
    MPI_Pcontrol(0);
    MPI_File_open(MPI_COMM_WORLD, "off.data", HOW, MPI_INFO_NULL, &file);
    MPI_Pcontrol(1);
    MPI_File_write_at(file, rank * PART, data, 73, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_Pcontrol(0);
    MPI_File_close(&file);
    MPI_Pcontrol(1);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    const char *part = argc > 1 ? argv[1] : "";
    if (!strcmp(part, "unknown"))
        unknown();
    else if (!strcmp(part, "off"))
        opened_while_off();
    else {
        whole_world(!strcmp(part, "blocking"));
        halves();
    }
    MPI_Finalize();
    return 0;
}
