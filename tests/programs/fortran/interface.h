! What the three interfaces of MPI to Fortran are called, so that one source serves them all: MPIF_H, USE_MPI or
! USE_MPI_F08 is defined. With mpi_f08 the error code is left away wherever it can be.
#ifdef USE_MPI_F08
#define COMM_T type(MPI_Comm)
#define REQUEST_T type(MPI_Request)
#define MESSAGE_T type(MPI_Message)
#define GROUP_T type(MPI_Group)
#define INFO_T type(MPI_Info)
#define DATATYPE_T type(MPI_Datatype)
#define WIN_T type(MPI_Win)
#define FILE_T type(MPI_File)
#define SESSION_T type(MPI_Session)
#define STATUS_T type(MPI_Status)
#define STATUSES_T(count) type(MPI_Status), dimension(count)
#define SOURCE(status) status%MPI_SOURCE
#define SOURCE_AT(statuses, at) statuses(at)%MPI_SOURCE
#define NO_OTHERS
#define ERR
#else
#define COMM_T integer
#define REQUEST_T integer
#define MESSAGE_T integer
#define GROUP_T integer
#define INFO_T integer
#define DATATYPE_T integer
#define WIN_T integer
#define FILE_T integer
#define SESSION_T integer
#define STATUS_T integer, dimension(MPI_STATUS_SIZE)
#define STATUSES_T(count) integer, dimension(MPI_STATUS_SIZE, count)
#define SOURCE(status) status(MPI_SOURCE)
#define SOURCE_AT(statuses, at) statuses(MPI_SOURCE, at)
#define NO_OTHERS ierr
#define ERR , ierr
#endif
