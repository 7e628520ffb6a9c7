! MPI-IO from Fortran by `use mpi`.
! ranks: 1 3 4
subroutine note(file, code)
  implicit none
  integer :: file, code, handled, handled_code
  common /handling/ handled, handled_code
  handled = handled + 1
  handled_code = code
end subroutine

program io_mpi
  use mpi
  implicit none
  external :: note
  character(*), parameter :: way = 'io_mpi'
#include "io_body.inc"
end program
