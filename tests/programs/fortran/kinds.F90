! Calls of each kind from Fortran, on 2 ranks: a part of lifecycle/each_kind.c.
#include "interface.h"
subroutine fortran_kinds() bind(c)
#include "begin.h"
  integer :: ierr, rank, other, counts(2)
  integer, asynchronous :: out(16), in(16)
  integer(kind=MPI_ADDRESS_KIND) :: bytes, first
  integer(kind=MPI_OFFSET_KIND) :: begin
  COMM_T :: half
  WIN_T :: window
  FILE_T :: file
  REQUEST_T :: requests(2)
  STATUSES_T(2) :: statuses

  call MPI_Comm_rank(MPI_COMM_WORLD, rank ERR)
  other = 1 - rank
  out = rank
  in = 0

  call MPI_Irecv(in, 16, MPI_INTEGER, MPI_ANY_SOURCE, 71, MPI_COMM_WORLD, requests(1) ERR)
  call MPI_Issend(out, 13, MPI_INTEGER, other, 71, MPI_COMM_WORLD, requests(2) ERR)
  call MPI_Waitall(2, requests, statuses ERR)
  call MPI_Sendrecv_replace(out, 11, MPI_INTEGER, other, 72, other, 72, MPI_COMM_WORLD, MPI_STATUS_IGNORE ERR)

  call MPI_Exscan(out, in, 7, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD ERR)
  call MPI_Allreduce(MPI_IN_PLACE, in, 5, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD ERR)
  counts = [3, 4]
  call MPI_Reduce_scatter(out, in, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD ERR)

  call MPI_Comm_split(MPI_COMM_WORLD, 0, other, half ERR)
  call MPI_Comm_set_name(half, 'turned  ' ERR)
  call MPI_Barrier(half ERR)

  bytes = 64
  first = 0
  call MPI_Win_create(in, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window ERR)
  call MPI_Win_fence(0, window ERR)
  call MPI_Get(out, 3, MPI_INTEGER, other, first, 3, MPI_INTEGER, window ERR)
  call MPI_Win_fence(0, window ERR)
  call MPI_Win_free(window ERR)

  begin = 64 * rank
  call MPI_File_open(half, 'fortran_kinds.out', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file ERR)
  call MPI_File_write_at(file, begin, out, 16, MPI_INTEGER, MPI_STATUS_IGNORE ERR)
  call MPI_File_close(file ERR)
  call MPI_Comm_free(half ERR)
end subroutine fortran_kinds
