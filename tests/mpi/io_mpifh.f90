! MPI-IO from Fortran by `include 'mpif.h'`.
! ranks: 1 3 4
subroutine note(file, code)
  implicit none
  integer :: file, code, handled, handled_code
  common /handling/ handled, handled_code
  handled = handled + 1
  handled_code = code
end subroutine

program io_mpifh
  implicit none
  include 'mpif.h'
  external :: note
  character(*), parameter :: way = 'io_mpifh'
#include "io_body.inc"
end program
