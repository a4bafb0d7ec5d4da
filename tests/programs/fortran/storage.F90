! Windows, files, and requests of theirs, on 4 ranks; it verifies what it gets.
#include "interface.h"
program storage
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
#include "begin.h"
  integer :: ierr, rank, right
  COMM_T :: twin

  call MPI_Init(NO_OTHERS)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank ERR)
  right = mod(rank + 1, 4)
  call MPI_Comm_dup(MPI_COMM_WORLD, twin ERR)
  call windows()
  call allocated()
  call files()
  call MPI_Comm_free(twin ERR)
  if (rank == 0) print '(a)', 'all is well'
  call MPI_Finalize(NO_OTHERS)

contains

#include "check.h"

  subroutine windows()
    integer, asynchronous :: memory(20), a(20), b(20)
    integer(kind=MPI_ADDRESS_KIND) :: bytes, first
    WIN_T :: win
    REQUEST_T :: request
    memory = rank
    a = 100 + rank
    b = -1
    bytes = 80
    first = 0
    call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, twin, win ERR)
    call MPI_Win_fence(0, win ERR)
    call MPI_Put(a, 3, MPI_INTEGER, right, first, 3, MPI_INTEGER, win ERR)
    call MPI_Win_fence(0, win ERR)
    call check(all(memory(1:3) == 100 + mod(rank + 3, 4)), 'what was put')
    call MPI_Win_fence(0, win ERR)
    call MPI_Accumulate(a, 2, MPI_INTEGER, right, first, 2, MPI_INTEGER, MPI_SUM, win ERR)
    call MPI_Win_fence(0, win ERR)
    call MPI_Win_lock_all(0, win ERR)
    first = 10
    call MPI_Get_accumulate(a, 1, MPI_INTEGER, b, 5, MPI_INTEGER, right, first, 5, MPI_INTEGER, MPI_NO_OP, win ERR)
    call MPI_Win_flush(right, win ERR)
    call check(all(b(1:5) == right), 'what was got without an operation')
    call MPI_Rget(b, 4, MPI_INTEGER, right, first, 4, MPI_INTEGER, win, request ERR)
    call MPI_Wait(request, MPI_STATUS_IGNORE ERR)
    call check(all(b(1:4) == right), 'what was got')
    call MPI_Win_unlock_all(win ERR)
    call MPI_Win_free(win ERR)
  end subroutine windows

  ! A window with memory of its own, whose place is a TYPE(C_PTR) outside of mpif.h.
  subroutine allocated()
    integer, asynchronous :: a(20)
    integer(kind=MPI_ADDRESS_KIND) :: bytes, first
    WIN_T :: win
#ifdef MPIF_H
    integer(kind=MPI_ADDRESS_KIND) :: base
#else
    type(c_ptr) :: base
    integer, pointer :: memory(:)
#endif
    a = 200 + rank
    bytes = 80
    first = 0
    call MPI_Win_allocate(bytes, 4, MPI_INFO_NULL, twin, base, win ERR)
    call MPI_Win_fence(0, win ERR)
    call MPI_Put(a, 6, MPI_INTEGER, right, first, 6, MPI_INTEGER, win ERR)
    call MPI_Win_fence(0, win ERR)
#ifndef MPIF_H
    call c_f_pointer(base, memory, [20])
    call check(all(memory(1:6) == 200 + mod(rank + 3, 4)), 'what was put into allocated memory')
#endif
    call MPI_Win_free(win ERR)
    call MPI_Win_allocate_shared(bytes, 4, MPI_INFO_NULL, twin, base, win ERR)
    call MPI_Win_fence(0, win ERR)
    call MPI_Win_free(win ERR)
  end subroutine allocated

  subroutine files()
    integer :: a(20), b(20), count
    integer(kind=MPI_OFFSET_KIND) :: at
    FILE_T :: file
    REQUEST_T :: request
    STATUS_T :: status
    character(len=400) :: folder
    a = rank
    b = -1
    call get_command_argument(1, folder)
    call MPI_File_open(twin, trim(folder)//'/storage', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file ERR)
    at = 40 * rank
    call MPI_File_write_at(file, at, a, 10, MPI_INTEGER, MPI_STATUS_IGNORE ERR)
    call MPI_File_sync(file ERR)
    call MPI_Barrier(twin ERR)
    call MPI_File_sync(file ERR)
    at = 40 * right
    call MPI_File_read_at_all(file, at, b, 5, MPI_INTEGER, status ERR)
    call MPI_Get_count(status, MPI_INTEGER, count ERR)
    call check(count == 5 .and. all(b(1:5) == right), 'what was read')
    call MPI_File_iread_at(file, at, b, 7, MPI_INTEGER, request ERR)
    call MPI_Wait(request, MPI_STATUS_IGNORE ERR)
    call check(all(b(1:7) == right), 'what was read beside')
    call MPI_File_close(file ERR)
    if (rank == 0) call MPI_File_delete(trim(folder)//'/storage', MPI_INFO_NULL ERR)
  end subroutine files
end program storage
