! Spawns processes from Fortran and talks to them. The arguments are the command to spawn and its own arguments; a
! program that gets none spawns itself without any, to try MPI_ARGV_NULL and MPI_ERRCODES_IGNORE.
#include "interface.h"
program spawn
#include "begin.h"
  COMM_T :: parent, inter
  integer :: rank, remote, class, codes(2), ierr, code
  integer :: data(300)
  logical :: is_child

  data = 0
  codes = -1
  call MPI_Init(NO_OTHERS)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank ERR)
  call MPI_Comm_get_parent(parent ERR)
  is_child = parent /= MPI_COMM_NULL
  if (is_child) then
    call MPI_Recv(data, 300, MPI_INTEGER, rank, 1, parent, MPI_STATUS_IGNORE ERR)
    if (data(1) /= 70 + rank) call fail('data')
    if (command_argument_count() == 1) call expect_word('two words')
    call MPI_Comm_disconnect(parent ERR)
  else
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN ERR)
    call start(code)
    if (code == MPI_SUCCESS) then
      call MPI_Comm_remote_size(inter, remote ERR)
      if (remote /= 2) call fail('remote size')
      data(1) = 70 + rank
      call MPI_Send(data, 100 + rank, MPI_INTEGER, rank, 1, inter ERR)
      call MPI_Comm_disconnect(inter ERR)
      if (rank == 0) print '(a)', 'spawned'
    else
      call MPI_Error_class(code, class ERR)
      if (rank == 0) print '(a)', 'refused'
    end if
  end if
  call MPI_Finalize(NO_OTHERS)

contains

  subroutine start(code)
    integer, intent(out) :: code
    character(len=400) :: command, program
    character(len=400) :: words(5)
    if (command_argument_count() == 0) then
      call get_command_argument(0, command)
      call MPI_Comm_spawn(command, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, &
                          MPI_ERRCODES_IGNORE, code)
    else
      call get_command_argument(0, program)
      call get_command_argument(1, command)
      words = [character(len=400) :: '--output', 'of-children', program, 'two words', '']
      call MPI_Comm_spawn(command, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, codes, code)
      if (code == MPI_SUCCESS .and. any(codes /= MPI_SUCCESS)) call fail('codes')
    end if
  end subroutine

  subroutine expect_word(expected)
    character(len=*), intent(in) :: expected
    character(len=80) :: word
    call get_command_argument(1, word)
    if (word /= expected) call fail('argument ' // word)
  end subroutine

  subroutine fail(what)
    character(len=*), intent(in) :: what
    print '(2a)', 'wrong ', what
    call MPI_Abort(MPI_COMM_WORLD, 9 ERR)
  end subroutine
end program
