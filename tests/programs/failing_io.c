// An MPI whose MPI-IO fails on one rank, as far as the name in FAILING tells: preloaded into programs of another.
//   open   the last rank is told that the file was not opened
//   write  the last rank is told that its bytes were not written
//   lost   the last rank's bytes are not written, and nobody is told
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int fails_here(const char *how) {
    const char *failing = getenv("FAILING");
    int rank, size;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    return failing && strcmp(failing, how) == 0 && rank == size - 1;
}

int PMPI_File_open(MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *file) {
    int (*real)(MPI_Comm, const char *, int, MPI_Info, MPI_File *) = dlsym(RTLD_NEXT, "PMPI_File_open");
    int code = real(comm, name, mode, info, file);
    return fails_here("open") ? MPI_ERR_OTHER : code;
}

int PMPI_File_write_at_all(MPI_File file, MPI_Offset at, const void *bytes, int count, MPI_Datatype type, MPI_Status *status) {
    int (*real)(MPI_File, MPI_Offset, const void *, int, MPI_Datatype, MPI_Status *) =
        dlsym(RTLD_NEXT, "PMPI_File_write_at_all");
    int code = real(file, at, bytes, fails_here("lost") ? 0 : count, type, status);
    return fails_here("write") ? MPI_ERR_OTHER : code;
}
