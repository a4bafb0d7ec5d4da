! Every kind of call that the profiler gives a meaning to, on 4 ranks; it verifies what it gets. Calls whose number
! depends on time (the tests) come on a communicator of their own.
#include "interface.h"
program everything
#include "begin.h"
  ! Indices begin with 1, but with 0 in mpi_f08 of MPICH 4.0.
  integer :: first
  integer :: ierr, rank, ranks, left, right

  call MPI_Init(NO_OTHERS)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank ERR)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks ERR)
  call check(ranks == 4, 'it needs 4 ranks')
  left = mod(rank + 3, 4)
  right = mod(rank + 1, 4)
  call blocking()
  call nonblocking()
  call completions()
  call in_time()
  call persistent()
  call probes()
  call collectives()
  call of_some()
  call started_collectives()
  call communicators()
  call topologies()
  if (rank == 0) print '(a)', 'all is well'
  call MPI_Finalize(NO_OTHERS)

contains

#include "check.h"

  subroutine blocking()
    integer :: a(20), b(20), m(3, 5), count
    STATUS_T :: status
    a = rank
    m = 0
    m(2, :) = [1, 2, 3, 4, 5]
    ierr = 77
    if (mod(rank, 2) == 0) then
      call MPI_Send(a, 10, MPI_INTEGER, right, 1, MPI_COMM_WORLD, ierr)
      call check(ierr == MPI_SUCCESS, 'the error code of a send')
      call MPI_Ssend(a, 3, MPI_INTEGER, right, 2, MPI_COMM_WORLD ERR)
      call MPI_Send(m(2, :), 5, MPI_INTEGER, right, 3, MPI_COMM_WORLD ERR)
      call MPI_Send(a, 4, MPI_INTEGER, MPI_PROC_NULL, 3, MPI_COMM_WORLD ERR)
    else
      call MPI_Recv(b, 20, MPI_INTEGER, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
      call check(ierr == MPI_SUCCESS .and. all(b(:10) == left), 'a receive without status')
      call MPI_Recv(b, 20, MPI_INTEGER, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, status ERR)
      call MPI_Get_count(status, MPI_INTEGER, count ERR)
      call check(count == 3 .and. SOURCE(status) == left, 'a receive with status')
      call MPI_Recv(b, 20, MPI_INTEGER, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE ERR)
      call check(all(b(:5) == [1, 2, 3, 4, 5]), 'a section')
    end if
    call MPI_Sendrecv(a, 6, MPI_INTEGER, right, 4, b, 20, MPI_INTEGER, left, 4, MPI_COMM_WORLD, status ERR)
    call MPI_Get_count(status, MPI_INTEGER, count ERR)
    call check(count == 6 .and. all(b(:6) == left), 'sendrecv')
    call MPI_Sendrecv_replace(a, 7, MPI_INTEGER, right, 5, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE ERR)
    call check(all(a(:7) == left), 'sendrecv_replace')
  end subroutine blocking

  subroutine nonblocking()
    integer :: a(20), b(20)
    REQUEST_T :: requests(2)
    STATUSES_T(2) :: statuses
    STATUS_T :: status
    a = rank
    call MPI_Irecv(b, 20, MPI_INTEGER, left, 1, MPI_COMM_WORLD, requests(1) ERR)
    call MPI_Isend(a, 8, MPI_INTEGER, right, 1, MPI_COMM_WORLD, requests(2) ERR)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE ERR)
    call check(all(b(:8) == left), 'waitall without statuses')
    call check(all([requests(1) == MPI_REQUEST_NULL, requests(2) == MPI_REQUEST_NULL]), 'requests are null')
    call MPI_Irecv(b, 20, MPI_INTEGER, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, requests(1) ERR)
    call MPI_Issend(a, 9, MPI_INTEGER, right, 2, MPI_COMM_WORLD, requests(2) ERR)
    call MPI_Waitall(2, requests, statuses ERR)
    call check(all(b(:9) == left) .and. SOURCE_AT(statuses, 1) == left, 'waitall with statuses')
    call MPI_Irecv(b, 20, MPI_INTEGER, left, 3, MPI_COMM_WORLD, requests(1) ERR)
    call MPI_Isend(a, 2, MPI_INTEGER, right, 3, MPI_COMM_WORLD, requests(2) ERR)
    call MPI_Wait(requests(1), status, ierr)
    call check(ierr == MPI_SUCCESS .and. SOURCE(status) == left, 'wait with status')
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE ERR)
    call MPI_Irecv(b, 20, MPI_INTEGER, MPI_PROC_NULL, 3, MPI_COMM_WORLD, requests(1) ERR)
    call MPI_Cancel(requests(1) ERR)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE ERR)
  end subroutine nonblocking

  subroutine completions()
    integer :: a(20), b(20, 2), at, which, seen, count, indices(2)
    REQUEST_T :: requests(4), others(2)
    STATUS_T :: status
    a = rank
    do at = 1, 2
      call MPI_Irecv(b(1, at), 20, MPI_INTEGER, left, at, MPI_COMM_WORLD, requests(at) ERR)
    end do
    do at = 1, 2
      call MPI_Isend(a, 10 * at, MPI_INTEGER, right, at, MPI_COMM_WORLD, requests(2 + at) ERR)
    end do
    call MPI_Irecv(b(1, 1), 0, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, others(2) ERR)
    others(1) = MPI_REQUEST_NULL
    call MPI_Waitany(2, others, which, MPI_STATUS_IGNORE ERR)
    first = which - 1
    seen = 0
    do at = 1, 4
      if (at < 3) then
        call MPI_Waitany(4, requests, which, MPI_STATUS_IGNORE ERR)
      else
        call MPI_Waitany(4, requests, which, status ERR)
      end if
      call check(which >= first .and. which < first + 4, 'the index of waitany')
      seen = seen + 2**(which - first)
    end do
    call check(seen == 15, 'waitany')
    call check(all(b(:10, 1) == left) .and. all(b(:, 2) == left), 'what came with waitany')
    call MPI_Waitany(4, requests, which, MPI_STATUS_IGNORE ERR)
    ! MPICH 4.0 adds 1 to this, too.
    call check(which == MPI_UNDEFINED .or. which == MPI_UNDEFINED + 1, 'waitany without any')
    call MPI_Irecv(b, 20, MPI_INTEGER, left, 3, MPI_COMM_WORLD, requests(2) ERR)
    call MPI_Send(a, 11, MPI_INTEGER, right, 3, MPI_COMM_WORLD ERR)
    call MPI_Waitsome(2, requests, count, indices, MPI_STATUSES_IGNORE ERR)
    call check(count == 1 .and. indices(1) == first + 1, 'waitsome')
  end subroutine completions

  ! How often it takes to ask depends on time; nothing else is on this communicator.
  subroutine in_time()
    integer :: a(20), b(20, 4), at, which, done, count, indices(2)
    logical :: flag
    COMM_T :: comm
    REQUEST_T :: sends(4), receives(4)
    STATUSES_T(2) :: statuses
    STATUS_T :: status
    a = rank
    call MPI_Comm_dup(MPI_COMM_WORLD, comm ERR)
    do at = 1, 4
      call MPI_Irecv(b(1, at), 20, MPI_INTEGER, left, at, comm, receives(at) ERR)
    end do
    do at = 1, 4
      call MPI_Isend(a, 3 * at, MPI_INTEGER, right, at, comm, sends(at) ERR)
    end do
    done = 0
    do while (done < 2)
      call MPI_Testsome(2, receives, count, indices, statuses ERR)
      if (count > 0) then
        call check(all(indices(:count) >= first .and. indices(:count) < first + 2), 'the indices of testsome')
        call check(SOURCE_AT(statuses, 1) == left, 'the status of testsome')
        done = done + count
      end if
    end do
    flag = .false.
    do while (.not. flag)
      call MPI_Testany(1, receives(3:3), which, flag, MPI_STATUS_IGNORE ERR)
    end do
    call check(which == first, 'testany')
    flag = .false.
    do while (.not. flag)
      call MPI_Test(receives(4), flag, status ERR)
    end do
    call MPI_Get_count(status, MPI_INTEGER, count ERR)
    call check(count == 12 .and. all(b(:12, 4) == left), 'test')
    flag = .false.
    do while (.not. flag)
      call MPI_Testall(4, sends, flag, MPI_STATUSES_IGNORE ERR)
    end do
    call MPI_Comm_free(comm ERR)
  end subroutine in_time

  subroutine persistent()
    integer :: a(20), b(20), round
    REQUEST_T :: requests(2)
    a = rank
    call MPI_Recv_init(b, 20, MPI_INTEGER, left, 6, MPI_COMM_WORLD, requests(1) ERR)
    call MPI_Send_init(a, 12, MPI_INTEGER, right, 6, MPI_COMM_WORLD, requests(2) ERR)
    do round = 1, 2
      b = -1
      call MPI_Startall(2, requests ERR)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE ERR)
      call check(all(b(:12) == left), 'startall')
    end do
    b = -1
    call MPI_Start(requests(1) ERR)
    call MPI_Start(requests(2) ERR)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE ERR)
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE ERR)
    call check(all(b(:12) == left), 'start')
    call MPI_Request_free(requests(1) ERR)
    call MPI_Request_free(requests(2) ERR)
    call check(requests(1) == MPI_REQUEST_NULL, 'a freed request is null')
  end subroutine persistent

  subroutine probes()
    integer :: a(20), b(20), count
    STATUS_T :: status
    REQUEST_T :: request
    MESSAGE_T :: message
    a = rank
    if (mod(rank, 2) == 0) then
      call MPI_Send(a, 13, MPI_INTEGER, right, 7, MPI_COMM_WORLD ERR)
      call MPI_Send(a, 14, MPI_INTEGER, right, 8, MPI_COMM_WORLD ERR)
      call MPI_Send(a, 15, MPI_INTEGER, right, 9, MPI_COMM_WORLD ERR)
    else
      call MPI_Probe(left, 7, MPI_COMM_WORLD, status ERR)
      call MPI_Get_count(status, MPI_INTEGER, count ERR)
      call check(count == 13, 'probe')
      call MPI_Recv(b, count, MPI_INTEGER, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE ERR)
      call MPI_Mprobe(left, 8, MPI_COMM_WORLD, message, MPI_STATUS_IGNORE ERR)
      call MPI_Mrecv(b, 20, MPI_INTEGER, message, MPI_STATUS_IGNORE ERR)
      call check(all(b(:14) == left), 'mrecv')
      call MPI_Mprobe(left, 9, MPI_COMM_WORLD, message, status ERR)
      call MPI_Imrecv(b, 20, MPI_INTEGER, message, request ERR)
      call MPI_Wait(request, status ERR)
      call MPI_Get_count(status, MPI_INTEGER, count ERR)
      call check(count == 15, 'imrecv')
    end if
  end subroutine probes

  subroutine collectives()
    integer :: a(8), b(8)
    call MPI_Barrier(MPI_COMM_WORLD ERR)
    a = rank
    call MPI_Bcast(a, 8, MPI_INTEGER, 2, MPI_COMM_WORLD ERR)
    call check(all(a == 2), 'bcast')
    a = 1
    call MPI_Reduce(a, b, 8, MPI_INTEGER, MPI_SUM, 1, MPI_COMM_WORLD ERR)
    if (rank == 1) call check(all(b == 4), 'reduce')
    call MPI_Allreduce(MPI_IN_PLACE, a, 8, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD ERR)
    call check(all(a == 4), 'allreduce in place')
    a = rank
    call MPI_Allreduce(a, b, 3, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD ERR)
    call check(all(b(:3) == 3), 'allreduce')
    a = rank
    if (rank == 0) then
      call MPI_Gather(MPI_IN_PLACE, 2, MPI_INTEGER, a, 2, MPI_INTEGER, 0, MPI_COMM_WORLD ERR)
      call check(all(a == [0, 0, 1, 1, 2, 2, 3, 3]), 'gather in place')
    else
      call MPI_Gather(a, 2, MPI_INTEGER, a, 2, MPI_INTEGER, 0, MPI_COMM_WORLD ERR)
    end if
    a = [1, 2, 3, 4, 5, 6, 7, 8]
    if (rank == 3) then
      call MPI_Scatter(a, 2, MPI_INTEGER, MPI_IN_PLACE, 2, MPI_INTEGER, 3, MPI_COMM_WORLD ERR)
    else
      call MPI_Scatter(a, 2, MPI_INTEGER, b, 2, MPI_INTEGER, 3, MPI_COMM_WORLD ERR)
      call check(all(b(:2) == [2 * rank + 1, 2 * rank + 2]), 'scatter')
    end if
    a = rank
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, 2, MPI_INTEGER, MPI_COMM_WORLD ERR)
    call check(all(a == [0, 0, 1, 1, 2, 2, 3, 3]), 'allgather in place')
    call MPI_Alltoall(a, 2, MPI_INTEGER, b, 2, MPI_INTEGER, MPI_COMM_WORLD ERR)
    call check(all(b == rank), 'alltoall')
    a = 1
    call MPI_Scan(a, b, 5, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD ERR)
    call check(all(b(:5) == rank + 1), 'scan')
    call MPI_Exscan(a, b, 6, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD ERR)
    if (rank > 0) call check(all(b(:6) == rank), 'exscan')
    call MPI_Reduce_scatter_block(a, b, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD ERR)
    call check(all(b(:2) == 4), 'reduce_scatter_block')
  end subroutine collectives

  ! A number of elements for each process, and a datatype too.
  subroutine of_some()
    integer :: a(10), b(10), counts(4), places(4), bytes(4)
    DATATYPE_T :: types(4)
    counts = [1, 2, 3, 4]
    places = [0, 1, 3, 6]
    a = rank
    call MPI_Gatherv(a, rank + 1, MPI_INTEGER, b, counts, places, MPI_INTEGER, 0, MPI_COMM_WORLD ERR)
    if (rank == 0) call check(all(b == [0, 1, 1, 2, 2, 2, 3, 3, 3, 3]), 'gatherv')
    call MPI_Scatterv(b, counts, places, MPI_INTEGER, a, rank + 1, MPI_INTEGER, 0, MPI_COMM_WORLD ERR)
    call check(all(a(:rank + 1) == rank), 'scatterv')
    call MPI_Allgatherv(a, rank + 1, MPI_INTEGER, b, counts, places, MPI_INTEGER, MPI_COMM_WORLD ERR)
    call check(all(b == [0, 1, 1, 2, 2, 2, 3, 3, 3, 3]), 'allgatherv')
    a(:4) = rank
    call MPI_Alltoallv(a, [1, 1, 1, 1], [0, 1, 2, 3], MPI_INTEGER, b, [1, 1, 1, 1], [0, 1, 2, 3], MPI_INTEGER, &
                       MPI_COMM_WORLD ERR)
    call check(all(b(:4) == [0, 1, 2, 3]), 'alltoallv')
    types = MPI_INTEGER
    bytes = [0, 4, 8, 12]
    call MPI_Alltoallw(a, [1, 1, 1, 1], bytes, types, b, [1, 1, 1, 1], bytes, types, MPI_COMM_WORLD ERR)
    call check(all(b(:4) == [0, 1, 2, 3]), 'alltoallw')
    a = 1
    call MPI_Reduce_scatter(a, b, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD ERR)
    call check(all(b(:rank + 1) == 4), 'reduce_scatter')
  end subroutine of_some

  subroutine started_collectives()
    integer :: a(8), b(8), c(8)
    REQUEST_T :: requests(4)
    a = rank
    b = 1
    c = rank
    call MPI_Ibcast(a, 8, MPI_INTEGER, 2, MPI_COMM_WORLD, requests(1) ERR)
    call MPI_Iallreduce(MPI_IN_PLACE, b, 8, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(2) ERR)
    call MPI_Ibarrier(MPI_COMM_WORLD, requests(3) ERR)
    call MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, c, 2, MPI_INTEGER, MPI_COMM_WORLD, requests(4) ERR)
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE ERR)
    call check(all(a == 2) .and. all(b == 4), 'ibcast and iallreduce')
    call check(all(c == [0, 0, 1, 1, 2, 2, 3, 3]), 'iallgather in place')
  end subroutine started_collectives

  subroutine communicators()
    integer :: color, one, length
    character(len=MPI_MAX_OBJECT_NAME) :: name
    COMM_T :: half, double, some, later
    GROUP_T :: world, group
    REQUEST_T :: request
    color = mod(rank, 2)
    if (rank == 3) color = MPI_UNDEFINED
    call MPI_Comm_split(MPI_COMM_WORLD, color, rank, half ERR)
    call check((half == MPI_COMM_NULL) .eqv. rank == 3, 'split')
    if (rank /= 3) then
      call MPI_Comm_set_name(half, 'a half  ' ERR)
      call MPI_Comm_get_name(half, name, length ERR)
      call check(name == 'a half', 'the name of a communicator')
      one = 1
      call MPI_Allreduce(MPI_IN_PLACE, one, 1, MPI_INTEGER, MPI_SUM, half ERR)
      call check(one == merge(2, 1, rank /= 1), 'allreduce in a half')
      call MPI_Comm_free(half ERR)
    end if
    call MPI_Comm_dup(MPI_COMM_WORLD, double ERR)
    call MPI_Barrier(double ERR)
    call MPI_Comm_group(double, world ERR)
    call MPI_Group_incl(world, 2, [2, 0], group ERR)
    call MPI_Comm_create(double, group, some ERR)
    if (mod(rank, 2) == 0) then
      call MPI_Barrier(some ERR)
      call MPI_Comm_free(some ERR)
    end if
    call MPI_Group_free(group ERR)
    call MPI_Group_free(world ERR)
    call MPI_Comm_idup(double, later, request ERR)
    call MPI_Wait(request, MPI_STATUS_IGNORE ERR)
    call MPI_Barrier(later ERR)
    call MPI_Comm_split_type(later, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, half ERR)
    call MPI_Barrier(half ERR)
    call MPI_Comm_free(half ERR)
    call MPI_Comm_free(later ERR)
    call MPI_Comm_free(double ERR)
  end subroutine communicators

  subroutine topologies()
    integer :: a(16), b(16)
    COMM_T :: grid, row, graph
    a = rank
    call MPI_Cart_create(MPI_COMM_WORLD, 2, [2, 2], [.true., .false.], .false., grid ERR)
    call MPI_Neighbor_allgather(a, 2, MPI_INTEGER, b, 2, MPI_INTEGER, grid ERR)
    call check(all(b(:2) == mod(rank + 2, 4)), 'neighbor_allgather')
    call MPI_Cart_sub(grid, [.false., .true.], row ERR)
    call MPI_Bcast(a, 3, MPI_INTEGER, 0, row ERR)
    call check(a(1) == rank - mod(rank, 2), 'bcast in a row')
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [left], MPI_UNWEIGHTED, 1, [right], MPI_UNWEIGHTED, &
                                        MPI_INFO_NULL, .false., graph ERR)
    a = rank
    call MPI_Neighbor_alltoall(a, 4, MPI_INTEGER, b, 4, MPI_INTEGER, graph ERR)
    call check(all(b(:4) == left), 'neighbor_alltoall')
    call MPI_Comm_free(row ERR)
    call MPI_Comm_free(grid ERR)
    call MPI_Comm_free(graph ERR)
  end subroutine topologies
end program everything
