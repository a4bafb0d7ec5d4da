! Communicators made in further ways, sections of arrays, matched probes and buffers, on 4 ranks; it verifies what it
! gets. All of it is in MPI 3.1.
#include "interface.h"
program creations
  use, intrinsic :: iso_c_binding, only: c_ptr
#include "begin.h"
  integer :: ierr, rank, left, right

  call MPI_Init(NO_OTHERS)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank ERR)
  left = mod(rank + 3, 4)
  right = mod(rank + 1, 4)
  call between_groups()
  call graphs()
  call duplicates()
  call some_of_all()
  call sections()
  call looks()
  call buffers()
  call bottom()
  call own_operation()
  if (rank == 0) print '(a)', 'all is well'
  call MPI_Finalize(NO_OTHERS)

contains

#include "check.h"

  subroutine between_groups()
    integer :: a(8), side, root
    COMM_T :: half, inter, merged
    side = mod(rank, 2)
    call MPI_Comm_split(MPI_COMM_WORLD, side, rank, half ERR)
    call MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 11, inter ERR)
    call MPI_Comm_set_name(inter, 'between' ERR)
    a = rank
    root = merge(MPI_ROOT, MPI_PROC_NULL, rank == 0)
    if (side == 1) root = 0
    call MPI_Bcast(a, 6, MPI_INTEGER, root, inter ERR)
    if (side == 1) call check(all(a(:6) == 0), 'bcast between groups')
    call MPI_Intercomm_merge(inter, side == 1, merged ERR)
    a = 1
    call MPI_Allreduce(MPI_IN_PLACE, a, 7, MPI_INTEGER, MPI_SUM, merged ERR)
    call check(all(a(:7) == 4), 'allreduce in what was merged')
    call MPI_Comm_disconnect(merged ERR)
    call check(merged == MPI_COMM_NULL, 'disconnected')
    call MPI_Comm_free(inter ERR)
    call MPI_Comm_free(half ERR)
  end subroutine between_groups

  subroutine graphs()
    integer :: a(8), b(8), place
    COMM_T :: ring, open, weighted, alone
    call MPI_Graph_map(MPI_COMM_WORLD, 4, [1, 2, 3, 4], [1, 2, 3, 0], place ERR)
    call MPI_Cart_map(MPI_COMM_WORLD, 1, [4], [.false.], place ERR)
    call MPI_Graph_create(MPI_COMM_WORLD, 4, [2, 4, 6, 8], [1, 3, 0, 2, 1, 3, 2, 0], .false., ring ERR)
    a = rank
    call MPI_Neighbor_allgather(a, 3, MPI_INTEGER, b, 3, MPI_INTEGER, ring ERR)
    call check(all(mod(b(1:6) + rank, 2) == 1), 'neighbor_allgather in a graph')
    call MPI_Dist_graph_create(MPI_COMM_WORLD, 1, [rank], [1], [right], MPI_UNWEIGHTED, MPI_INFO_NULL, .false., open ERR)
    call MPI_Neighbor_allgather(a, 5, MPI_INTEGER, b, 5, MPI_INTEGER, open ERR)
    call check(all(b(:5) == left), 'neighbor_allgather in a distributed graph')
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [left], [3], 1, [right], [4], MPI_INFO_NULL, .false., &
                                        weighted ERR)
    call MPI_Neighbor_allgather(a, 7, MPI_INTEGER, b, 7, MPI_INTEGER, weighted ERR)
    call check(all(b(:7) == left), 'neighbor_allgather with weights')
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, [left], MPI_WEIGHTS_EMPTY, 0, [right], MPI_WEIGHTS_EMPTY, &
                                        MPI_INFO_NULL, .false., alone ERR)
    call MPI_Neighbor_allgather(a, 2, MPI_INTEGER, b, 2, MPI_INTEGER, alone ERR)
    call MPI_Comm_free(alone ERR)
    call MPI_Comm_free(weighted ERR)
    call MPI_Comm_free(open ERR)
    call MPI_Comm_free(ring ERR)
  end subroutine graphs

  subroutine duplicates()
    INFO_T :: info
    COMM_T :: first, second
    REQUEST_T :: request
    call MPI_Info_create(info ERR)
    call MPI_Info_set(info, 'a key', 'a value' ERR)
    call MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, first ERR)
    call MPI_Comm_set_info(first, info ERR)
    call MPI_Comm_set_name(first, 'the first of two' ERR)
    call MPI_Comm_idup(first, second, request ERR)
    call MPI_Wait(request, MPI_STATUS_IGNORE ERR)
    call MPI_Comm_set_name(second, '' ERR)
    call MPI_Barrier(second ERR)
    call MPI_Comm_free(second ERR)
    call MPI_Comm_free(first ERR)
    call MPI_Info_free(info ERR)
  end subroutine duplicates

  subroutine some_of_all()
    GROUP_T :: world, group
    COMM_T :: some
    if (rank == 0) return
    call MPI_Comm_group(MPI_COMM_WORLD, world ERR)
    call MPI_Group_incl(world, 3, [3, 1, 2], group ERR)
    call MPI_Comm_create_group(MPI_COMM_WORLD, group, 12, some ERR)
    call MPI_Comm_set_name(some, 'some of all' ERR)
    call MPI_Barrier(some ERR)
    call MPI_Comm_free(some ERR)
    call MPI_Group_free(group ERR)
    call MPI_Group_free(world ERR)
  end subroutine some_of_all

  ! What is not contiguous is one element of another datatype in mpi_f08 of MPICH, and a copy elsewhere.
  subroutine sections()
    integer :: m(3, 8), n(3, 8), v(22)
    COMM_T :: twin
    STATUS_T :: status
    integer :: count
    call MPI_Comm_dup(MPI_COMM_WORLD, twin ERR)
    m = rank
    n = -1
    call MPI_Sendrecv(m(2, :), 8, MPI_INTEGER, right, 1, n(3, :), 8, MPI_INTEGER, left, 1, twin, status ERR)
    call check(all(n(3, :) == left) .and. all(n(:2, :) == -1), 'sendrecv of sections')
    v = rank
    if (mod(rank, 2) == 0) then
      call MPI_Send(v(1:21:2), 11, MPI_INTEGER, right, 2, twin ERR)
    else
      call MPI_Recv(v(2:22:2), 11, MPI_INTEGER, left, 2, twin, status ERR)
      call MPI_Get_count(status, MPI_INTEGER, count ERR)
      call check(count == 11 .and. all(v(2:22:2) == left) .and. all(v(1:21:2) == rank), 'a section is received')
    end if
    v = rank
    call MPI_Bcast(v(1:19:3), 7, MPI_INTEGER, 1, twin ERR)
    call check(all(v(1:19:3) == 1) .and. v(2) == rank, 'bcast of a section')
    m(1, :) = rank
    call MPI_Allgather(m(1, 1:5), 5, MPI_INTEGER, v, 5, MPI_INTEGER, twin ERR)
    call check(all(v(6:10) == 1) .and. all(v(16:20) == 3), 'allgather of sections')
    call MPI_Comm_free(twin ERR)
  end subroutine sections

  ! What a datatype of absolute addresses says alone, from the bottom.
  subroutine bottom()
    integer, asynchronous :: a(13), b(13)
    integer(kind=MPI_ADDRESS_KIND) :: address
    COMM_T :: twin
    DATATYPE_T :: where
    call MPI_Comm_dup(MPI_COMM_WORLD, twin ERR)
    a = rank
    call MPI_Get_address(a, address ERR)
    call MPI_Type_create_hindexed(1, [13], [address], MPI_INTEGER, where ERR)
    call MPI_Type_commit(where ERR)
    call MPI_Sendrecv(MPI_BOTTOM, 1, where, right, 5, b, 13, MPI_INTEGER, left, 5, twin, MPI_STATUS_IGNORE ERR)
    call check(all(b == left), 'what was at the bottom')
    call MPI_Type_free(where ERR)
    call MPI_Comm_free(twin ERR)
  end subroutine bottom

  ! How often it takes to look depends on time; nothing else is on this communicator.
  subroutine looks()
    integer :: a(20), b(20), count
    logical :: flag
    COMM_T :: twin
    MESSAGE_T :: message
    REQUEST_T :: request, sent
    STATUS_T :: status
    call MPI_Comm_dup(MPI_COMM_WORLD, twin ERR)
    a = rank
    call MPI_Isend(a, 9, MPI_INTEGER, right, 3, twin, sent ERR)
    flag = .false.
    do while (.not. flag)
      call MPI_Improbe(left, 3, twin, flag, message, status ERR)
    end do
    call MPI_Get_count(status, MPI_INTEGER, count ERR)
    call check(count == 9, 'improbe')
    call MPI_Imrecv(b, 20, MPI_INTEGER, message, request ERR)
    flag = .false.
    do while (.not. flag)
      call MPI_Request_get_status(request, flag, status ERR)
    end do
    call check(SOURCE(status) == left, 'request_get_status')
    call check(.not. request == MPI_REQUEST_NULL, 'a request that was looked at')
    call MPI_Wait(request, MPI_STATUS_IGNORE ERR)
    call check(all(b(:9) == left), 'imrecv')
    call MPI_Wait(sent, MPI_STATUS_IGNORE ERR)
    call MPI_Comm_free(twin ERR)
  end subroutine looks

  subroutine buffers()
    integer, target :: room(4096)
    integer :: a(10), b(10), bytes
    COMM_T :: twin
#ifdef USE_MPI_F08
    type(c_ptr) :: address
#else
    integer(kind=MPI_ADDRESS_KIND) :: address
#endif
    call MPI_Comm_dup(MPI_COMM_WORLD, twin ERR)
    a = rank
    call MPI_Buffer_attach(room, 4 * size(room), ierr)
    call MPI_Bsend(a, 10, MPI_INTEGER, right, 4, twin ERR)
    call MPI_Recv(b, 10, MPI_INTEGER, left, 4, twin, MPI_STATUS_IGNORE ERR)
    call MPI_Buffer_detach(address, bytes ERR)
    call check(bytes == 4 * size(room) .and. all(b == left), 'a buffered send')
    call MPI_Comm_free(twin ERR)
  end subroutine buffers

  ! An operation of the program's own.
  subroutine own_operation()
    REQUEST_T :: request
    STATUS_T :: status
    integer :: count
    integer(kind=MPI_ADDRESS_KIND) :: state
    external :: query, let_go, cancel
    state = 801
    call MPI_Grequest_start(query, let_go, cancel, state, request ERR)
    call MPI_Grequest_complete(request ERR)
    call MPI_Wait(request, status ERR)
    call MPI_Get_count(status, MPI_INTEGER, count ERR)
    call check(count == 5, 'an operation of its own')
  end subroutine own_operation
end program creations

subroutine query(state, status, ierr)
#include "begin.h"
  integer(kind=MPI_ADDRESS_KIND) :: state
  STATUS_T :: status
  integer :: ierr
  call MPI_Status_set_elements(status, MPI_INTEGER, 5, ierr)
  call MPI_Status_set_cancelled(status, .false., ierr)
  ierr = merge(MPI_SUCCESS, MPI_ERR_OTHER, state == 801)
end subroutine query

subroutine let_go(state, ierr)
  use, intrinsic :: iso_fortran_env, only: int64
  implicit none
  integer(int64) :: state
  integer :: ierr
  ierr = merge(0, 1, state == 801)
end subroutine let_go

subroutine cancel(state, complete, ierr)
  use, intrinsic :: iso_fortran_env, only: int64
  implicit none
  integer(int64) :: state
  logical :: complete
  integer :: ierr
  ierr = merge(0, 1, complete .or. state == 801)
end subroutine cancel
