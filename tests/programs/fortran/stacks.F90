! Stays where it is until there is a file "go", on 2 ranks: 0 in a Recv, below exchange of the module halo, 1 in no call.
#include "interface.h"
module halo
#include "begin.h"
contains

  subroutine exchange(rank)
    integer, intent(in) :: rank
    integer :: number, ierr
    number = 79
    ierr = 0
    if (rank == 0) call MPI_Recv(number, 1, MPI_INTEGER, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE ERR) ! exchange calls
    if (rank == 1) call MPI_Send(number, 1, MPI_INTEGER, 0, 5, MPI_COMM_WORLD ERR)
  end subroutine
end module

program stacks
  use halo
  implicit none
  integer :: ierr, rank
  logical :: there
  character(len=16) :: sign

  call MPI_Init(NO_OTHERS)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank ERR)
  write (sign, '(a,i1)') 'arrived.', rank
  open (unit=20, file=trim(sign))
  close (20)
  there = rank == 0
  do while (.not. there)
    inquire (file='go', exist=there)
    call sleep(1)
  end do
  call exchange(rank)
  call MPI_Finalize(NO_OTHERS)
end program
