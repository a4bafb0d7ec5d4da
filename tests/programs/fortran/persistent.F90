! Persistent collective operations, of MPI 4 or of Open MPI's extensions, on 4 ranks; it verifies what it gets.
#include "interface.h"
#ifdef HAS_MPIX
#define MPI_Barrier_init MPIX_Barrier_init
#define MPI_Bcast_init MPIX_Bcast_init
#define MPI_Allreduce_init MPIX_Allreduce_init
#define MPI_Alltoallv_init MPIX_Alltoallv_init
#define MPI_Neighbor_allgather_init MPIX_Neighbor_allgather_init
#endif
program persistent
#ifdef HAS_MPIX
#if defined(USE_MPI_F08)
  use mpi_f08_ext
#elif defined(USE_MPI)
  use mpi_ext
#endif
#endif
#include "begin.h"
#if defined(HAS_MPIX) && defined(MPIF_H)
  include 'mpif-ext.h'
#endif
  integer :: ierr, rank, left, round
  integer :: a(8), b(8), c(10), d(10), e(4), f(4)
  COMM_T :: twin, ring
  REQUEST_T :: requests(5)

  call MPI_Init(NO_OTHERS)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank ERR)
  left = mod(rank + 3, 4)
  call MPI_Comm_dup(MPI_COMM_WORLD, twin ERR)
  call MPI_Cart_create(twin, 1, [4], [.true.], .false., ring ERR)
  call MPI_Barrier_init(twin, MPI_INFO_NULL, requests(1) ERR)
  call MPI_Bcast_init(a, 7, MPI_INTEGER, 2, twin, MPI_INFO_NULL, requests(2) ERR)
  call MPI_Allreduce_init(MPI_IN_PLACE, b, 5, MPI_INTEGER, MPI_SUM, twin, MPI_INFO_NULL, requests(3) ERR)
  call MPI_Alltoallv_init(c, [1, 1, 1, 1], [0, 1, 2, 3], MPI_INTEGER, d, [1, 1, 1, 1], [0, 1, 2, 3], MPI_INTEGER, twin, &
                          MPI_INFO_NULL, requests(4) ERR)
  call MPI_Neighbor_allgather_init(e, 2, MPI_INTEGER, f, 2, MPI_INTEGER, ring, MPI_INFO_NULL, requests(5) ERR)
  do round = 1, 3
    a = rank + round
    b = 1
    c = rank
    e = rank
    call MPI_Startall(5, requests ERR)
    call MPI_Waitall(5, requests, MPI_STATUSES_IGNORE ERR)
    if (any(a(:7) /= 2 + round) .or. any(b(:5) /= 4) .or. any(d(:4) /= [0, 1, 2, 3]) .or. any(f(:2) /= left)) then
      print '(a)', 'wrong results'
      error stop 1
    end if
  end do
  call MPI_Start(requests(2) ERR)
  call MPI_Wait(requests(2), MPI_STATUS_IGNORE ERR)
  do round = 1, 5
    call MPI_Request_free(requests(round) ERR)
  end do
  call MPI_Comm_free(ring ERR)
  call MPI_Comm_free(twin ERR)
  if (rank == 0) print '(a)', 'all is well'
  call MPI_Finalize(NO_OTHERS)
end program persistent
