! Regions by number, and recording off and on.
#include "interface.h"
program regions
#include "begin.h"
  include 'mpisee.inc'
  integer :: ierr, provided

  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided ERR)
  call MPI_Barrier(MPI_COMM_WORLD ERR)
  call MPI_Pcontrol(MPISEE_REGION_BEGIN_NUMBER + 7)
  call MPI_Barrier(MPI_COMM_WORLD ERR)
  call MPI_Pcontrol(MPISEE_REGION_BEGIN_NUMBER + 8)
  call MPI_Barrier(MPI_COMM_WORLD ERR)
  call MPI_Barrier(MPI_COMM_WORLD ERR)
  call MPI_Pcontrol(MPISEE_REGION_END_NUMBER + 8)
  call MPI_Pcontrol(0)
  call MPI_Barrier(MPI_COMM_WORLD ERR)
  call MPI_Pcontrol(1)
  call MPI_Barrier(MPI_COMM_WORLD ERR)
  call MPI_Pcontrol(MPISEE_REGION_END_NUMBER + 7)
  call MPI_Finalize(NO_OTHERS)
end program regions
