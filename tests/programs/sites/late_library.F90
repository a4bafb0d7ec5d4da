! A library in Fortran that opened.c opens once MPI has begun, and with it the MPI's bindings.
integer(c_int) function gather_in_library() bind(C)
  use, intrinsic :: iso_c_binding
  implicit none
  include 'mpif.h'
  integer :: own, ranks(64), size, error
  call MPI_Comm_rank(MPI_COMM_WORLD, own, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  call MPI_Allgather(own, 1, MPI_INTEGER, ranks, 1, MPI_INTEGER, MPI_COMM_WORLD, error) ! the library calls
  gather_in_library = sum(ranks(1:size))
end function
