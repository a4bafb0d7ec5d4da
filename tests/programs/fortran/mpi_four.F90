! What came with MPI 4, on 4 ranks; it verifies what it gets. Counts are large in mpi_f08, which alone has such.
#include "interface.h"
#ifdef USE_MPI_F08
#define LARGE(count) count/**/_MPI_COUNT_KIND
#else
#define LARGE(count) count
#endif
program four
  use, intrinsic :: iso_c_binding, only: c_ptr
#include "begin.h"
  integer :: ierr, rank, left, right

  call MPI_Init(NO_OTHERS)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank ERR)
  left = mod(rank + 3, 4)
  right = mod(rank + 1, 4)
  call both_ways()
  call in_parts()
  call large()
  call duplicate()
  if (rank == 0) print '(a)', 'all is well'
  call MPI_Finalize(NO_OTHERS)

contains

#include "check.h"

  subroutine both_ways()
    integer :: a(20), b(20)
    REQUEST_T :: request
    a = rank
    call MPI_Isendrecv(a, 6, MPI_INTEGER, right, 1, b, 20, MPI_INTEGER, left, 1, MPI_COMM_WORLD, request ERR)
    call MPI_Wait(request, MPI_STATUS_IGNORE ERR)
    call check(all(b(:6) == left), 'isendrecv')
    call MPI_Isendrecv_replace(a, 7, MPI_INTEGER, right, 2, left, 2, MPI_COMM_WORLD, request ERR)
    call MPI_Wait(request, MPI_STATUS_IGNORE ERR)
    call check(all(a(:7) == left), 'isendrecv_replace')
  end subroutine both_ways

  subroutine in_parts()
    integer :: a(12), b(12), part
#ifdef USE_MPI
    ! MPICH 4.0 takes it for an integer here.
    integer :: flag
#else
    logical :: flag
#endif
    COMM_T :: twin
    REQUEST_T :: requests(2)
    call MPI_Comm_dup(MPI_COMM_WORLD, twin ERR)
    a = rank
    call MPI_Psend_init(a, 4, 3_MPI_COUNT_KIND, MPI_INTEGER, right, 3, twin, MPI_INFO_NULL, requests(1) ERR)
    call MPI_Precv_init(b, 4, 3_MPI_COUNT_KIND, MPI_INTEGER, left, 3, twin, MPI_INFO_NULL, requests(2) ERR)
    call MPI_Startall(2, requests ERR)
    call MPI_Pready(0, requests(1) ERR)
    call MPI_Pready_range(1, 2, requests(1) ERR)
    call MPI_Pready_list(1, [3], requests(1) ERR)
    call MPI_Parrived(requests(2), 3, flag ERR)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE ERR)
    call check(all(b == left), 'what came in parts')
    do part = 1, 2
      call MPI_Request_free(requests(part) ERR)
    end do
    call MPI_Comm_free(twin ERR)
  end subroutine in_parts

  subroutine large()
    integer :: a(20), b(20)
    COMM_T :: twin
    REQUEST_T :: request
    WIN_T :: win
#ifdef MPIF_H
    integer(kind=MPI_ADDRESS_KIND) :: base
#else
    type(c_ptr) :: base
#endif
    integer(kind=MPI_ADDRESS_KIND) :: bytes
#ifdef USE_MPI_F08
    integer(kind=MPI_ADDRESS_KIND) :: unit
#else
    integer :: unit
#endif
    call MPI_Comm_dup(MPI_COMM_WORLD, twin ERR)
    a = rank
    call MPI_Isend(a, LARGE(8), MPI_INTEGER, right, 4, twin, request ERR)
    call MPI_Recv(b, LARGE(20), MPI_INTEGER, left, 4, twin, MPI_STATUS_IGNORE ERR)
    call MPI_Wait(request, MPI_STATUS_IGNORE ERR)
    call check(all(b(:8) == left), 'a large send')
    call MPI_Bcast(a, LARGE(9), MPI_INTEGER, 3, twin ERR)
    call check(all(a(:9) == 3), 'a large bcast')
    bytes = 80
    unit = 4
    call MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, twin, base, win ERR)
    call MPI_Win_fence(0, win ERR)
    call MPI_Win_free(win ERR)
    call MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, twin, base, win ERR)
    call MPI_Win_fence(0, win ERR)
    call MPI_Win_free(win ERR)
    call MPI_Comm_free(twin ERR)
  end subroutine large

  subroutine duplicate()
    COMM_T :: twin
    REQUEST_T :: request
    call MPI_Comm_idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, twin, request ERR)
    call MPI_Wait(request, MPI_STATUS_IGNORE ERR)
    call MPI_Barrier(twin ERR)
    call MPI_Comm_free(twin ERR)
  end subroutine duplicate
end program four
