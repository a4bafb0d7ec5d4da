! Calls MPI at places whose lines it prints, as lines.c does: `OPERATION FUNCTION LINE CALLS`.
program lines
#if defined(USE_MPI_F08)
  use mpi_f08
  implicit none
  type(MPI_Request) :: requests(2)
#elif defined(USE_MPI)
  use mpi
  implicit none
  integer :: requests(2)
#else
  implicit none
  include 'mpif.h'
  integer :: requests(2)
#endif
  integer :: rank, size, error, time
  double precision :: one, total, out(3), in(3)
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  one = 1
  out = 0
  do time = 1, 30
    call MPI_Irecv(in, 3, MPI_DOUBLE_PRECISION, mod(rank + size - 1, size), 5, MPI_COMM_WORLD, requests(1), error)
    call MPI_Isend(out, 3, MPI_DOUBLE_PRECISION, mod(rank + 1, size), 5, MPI_COMM_WORLD, requests(2), error)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
    call MPI_Allreduce(one, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    if (mod(time, 3) == 0) then
      call MPI_Allreduce(one, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    end if
  end do
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call MPI_Bcast(one, 1, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, error)
  if (rank == 0) then
    print '(a)', 'MPI_Irecv lines 24 30'
    print '(a)', 'MPI_Isend lines 25 30'
    print '(a)', 'MPI_Waitall lines 26 30'
    print '(a)', 'MPI_Allreduce lines 27 30'
    print '(a)', 'MPI_Allreduce lines 29 10'
    print '(a)', 'MPI_Barrier lines 32 1'
    print '(a)', 'MPI_Bcast lines 33 1'
  end if
  call MPI_Finalize(error)
end program
