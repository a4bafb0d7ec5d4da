! Sessions and communicators from their groups, without a world; 4 processes.
#include "interface.h"
program sessions
#include "begin.h"
  integer :: ierr, rank, a(20), b(20)
  SESSION_T :: session
  GROUP_T :: everyone, mine, theirs
  COMM_T :: all, half, both

  call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, session ERR)
  call MPI_Group_from_session_pset(session, 'mpi://WORLD', everyone ERR)
  call MPI_Group_rank(everyone, rank ERR)
  call MPI_Comm_create_from_group(everyone, 'all of them', MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, all ERR)
  call MPI_Comm_set_name(all, 'everyone' ERR)
  a = rank
  call MPI_Bcast(a, 7, MPI_INTEGER, 2, all ERR)
  if (a(1) /= 2) error stop 1
  call MPI_Group_incl(everyone, 2, [mod(rank, 2), mod(rank, 2) + 2], mine ERR)
  call MPI_Group_incl(everyone, 2, [1 - mod(rank, 2), 3 - mod(rank, 2)], theirs ERR)
  call MPI_Comm_create_from_group(mine, merge('even', 'odd ', mod(rank, 2) == 0), MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &
                                  half ERR)
  call MPI_Comm_set_name(half, merge('evens', 'odds ', mod(rank, 2) == 0) ERR)
  call MPI_Barrier(half ERR)
  call MPI_Intercomm_create_from_groups(mine, 0, theirs, 0, 'both', MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, both ERR)
  call MPI_Comm_set_name(both, 'both' ERR)
  a = rank
  call MPI_Sendrecv(a, 11, MPI_INTEGER, rank / 2, 2, b, 20, MPI_INTEGER, rank / 2, 2, both, MPI_STATUS_IGNORE ERR)
  if (any(b(:11) /= rank + 1 - 2 * mod(rank, 2))) error stop 2
  if (rank == 0) print '(a)', 'all is well'
  call MPI_Comm_free(both ERR)
  call MPI_Comm_free(half ERR)
  call MPI_Comm_free(all ERR)
  call MPI_Group_free(mine ERR)
  call MPI_Group_free(theirs ERR)
  call MPI_Group_free(everyone ERR)
  call MPI_Session_finalize(session ERR)
end program sessions
