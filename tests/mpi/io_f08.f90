! MPI-IO from Fortran by `use mpi_f08`: open, views, data access, status, info, error handler callbacks.
! ranks: 1 3 4
module checks
  use mpi_f08
  implicit none
  integer :: rank = 0, ranks = 1, failures = 0, handled = 0, handled_code = 0
  integer :: handled_amode = 0
contains
  subroutine expect(condition, line, what)
    logical, intent(in) :: condition
    integer, intent(in) :: line
    character(*), intent(in) :: what
    if (condition) return
    failures = failures + 1
    write (0, '(a,i0,a,i0,a,i0,2a)') 'io_f08.f90:', line, ': rank ', rank, ' of ', ranks, ': expected ', what
  end subroutine

  subroutine expect_ok(code, line)
    integer, intent(in) :: code, line
    character(MPI_MAX_ERROR_STRING) :: text
    integer :: length, ignored
    if (code == MPI_SUCCESS) return
    call MPI_Error_string(code, text, length, ignored)
    call expect(.false., line, 'MPI_SUCCESS, got '//text(1:length))
  end subroutine

  subroutine note(file, code)
    type(MPI_File) :: file
    integer :: code
    handled = handled + 1
    handled_code = code
    ! By use, not by comparison: Open MPI's library passes a handle of its own choosing (README, limits).
    call MPI_File_get_amode(file, handled_amode)
  end subroutine
end module

program io_f08
  use checks
  implicit none
  type(MPI_File) :: file
  type(MPI_Datatype) :: filetype, etype, back_type
  type(MPI_Status) :: status
  type(MPI_Request) :: request
  type(MPI_Info) :: info
  type(MPI_Errhandler) :: handler
  type(MPI_Group) :: group
  character(4096) :: directory, name
  character(MPI_MAX_DATAREP_STRING) :: representation
  integer :: code, i, seconds, all_failures, count, amode, members, class
  integer, asynchronous :: values(10), back(10)
  double precision :: number, number_back
  integer(MPI_OFFSET_KIND) :: offset, zero
  logical :: flag

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_environment_variable('PENSTOCK_TEST_DIRECTORY', directory)
  if (len_trim(directory) == 0) directory = '.'
  call system_clock(seconds)
  call MPI_Bcast(seconds, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, code)
  write (name, '(2a,i0)') trim(directory), '/io_f08-', seconds
  values = [(100*rank + i, i=1, 10)]
  zero = 0

  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, code)
  call expect_ok(code, __LINE__)
  call MPI_File_get_amode(file, amode, code)
  call expect(amode == MPI_MODE_CREATE + MPI_MODE_RDWR, __LINE__, 'the access mode of the open')
  call MPI_File_get_group(file, group, code)
  call MPI_Group_size(group, members, code)
  call expect(members == ranks, __LINE__, 'all ranks in the group of the file')
  call MPI_Group_free(group, code)

  call MPI_Type_vector(10, 1, ranks, MPI_INTEGER, filetype, code)
  call MPI_Type_commit(filetype, code)
  call MPI_File_set_view(file, 4_MPI_OFFSET_KIND*rank, MPI_INTEGER, filetype, 'native', MPI_INFO_NULL, code)
  call expect_ok(code, __LINE__)
  call MPI_File_get_view(file, offset, etype, back_type, representation, code)
  call expect_ok(code, __LINE__)
  call expect(offset == 4*rank, __LINE__, 'the displacement that was set')
  call expect(etype == MPI_INTEGER, __LINE__, 'the etype that was set')
  call expect(trim(representation) == 'native', __LINE__, 'native, got '//trim(representation))
  if (back_type /= MPI_INTEGER) call MPI_Type_free(back_type, code)

  call MPI_File_write_all(file, values, 10, MPI_INTEGER, status, code)
  call expect_ok(code, __LINE__)
  call MPI_Get_count(status, MPI_INTEGER, count, code)
  call expect(count == 10, __LINE__, '10 integers written')
  call MPI_File_get_position(file, offset, code)
  call expect(offset == 10, __LINE__, 'position 10')
  call MPI_File_sync(file, code)
  call MPI_Barrier(MPI_COMM_WORLD, code)
  call MPI_File_get_size(file, offset, code)
  call expect(offset == 40*ranks, __LINE__, 'a file of 40 bytes per rank')

  back = -1
  call MPI_File_read_at(file, zero, back, 10, MPI_INTEGER, status, code)
  call expect_ok(code, __LINE__)
  call expect(all(back == values), __LINE__, 'what was written')
  back = -1
  call MPI_File_iread_at(file, zero, back, 10, MPI_INTEGER, request, code)
  call expect_ok(code, __LINE__)
  call MPI_Wait(request, status, code)
  call expect_ok(code, __LINE__)
  if (.not. MPI_ASYNC_PROTECTS_NONBLOCKING) call MPI_F_sync_reg(back)
  call expect(all(back == values), __LINE__, 'what was written, by iread_at')
  call MPI_Get_count(status, MPI_INTEGER, count, code)
  call expect(count == 10, __LINE__, '10 integers read')

  ! At and past the end of the file.
  call MPI_File_set_view(file, zero, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, code)
  call MPI_Barrier(MPI_COMM_WORLD, code)
  call MPI_File_read_at(file, 10_MPI_OFFSET_KIND*ranks - 3, back, 10, MPI_INTEGER, status, code)
  call MPI_Get_count(status, MPI_INTEGER, count, code)
  call expect(count == 3, __LINE__, '3 integers before the end of the file')
  call MPI_Barrier(MPI_COMM_WORLD, code)

  call MPI_File_seek(file, 10_MPI_OFFSET_KIND*ranks + 10*rank, MPI_SEEK_SET, code)
  values = values + 1000
  call MPI_File_iwrite(file, values, 10, MPI_INTEGER, request, code)
  call expect_ok(code, __LINE__)
  call MPI_Wait(request, MPI_STATUS_IGNORE, code)
  call MPI_File_seek(file, -10_MPI_OFFSET_KIND, MPI_SEEK_CUR, code)
  call MPI_File_read(file, back, 10, MPI_INTEGER, status, code)
  call expect(all(back == values), __LINE__, 'what iwrite wrote')

  call MPI_File_write_at_all_begin(file, 30_MPI_OFFSET_KIND*ranks + 10*rank, values, 10, MPI_INTEGER, code)
  call expect_ok(code, __LINE__)
  call MPI_File_write_at_all_end(file, values, status, code)
  call expect_ok(code, __LINE__)
  call MPI_File_seek_shared(file, 40_MPI_OFFSET_KIND*ranks, MPI_SEEK_SET, code)
  call expect_ok(code, __LINE__)
  call MPI_File_write_ordered(file, rank, 1, MPI_INTEGER, status, code)
  call expect_ok(code, __LINE__)
  call MPI_File_read_at(file, 40_MPI_OFFSET_KIND*ranks + rank, back, 1, MPI_INTEGER, status, code)
  call expect(back(1) == rank, __LINE__, 'what write_ordered wrote')

  ! A real in external32 is 1.5 in big-endian order: 3F F8 ...
  call MPI_File_set_view(file, 400_MPI_OFFSET_KIND*ranks + 8*rank, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, 'external32', &
                         MPI_INFO_NULL, code)
  call expect_ok(code, __LINE__)
  number = 1.5d0
  call MPI_File_write_at_all(file, zero, number, 1, MPI_DOUBLE_PRECISION, status, code)
  call expect_ok(code, __LINE__)
  number_back = 0
  call MPI_File_read_at(file, zero, number_back, 1, MPI_DOUBLE_PRECISION, status, code)
  call expect(number_back == number, __LINE__, 'the real that was written')

  call MPI_File_get_info(file, info, code)
  call expect_ok(code, __LINE__)
  call MPI_Info_free(info, code)
  call MPI_File_set_atomicity(file, .true., code)
  call expect_ok(code, __LINE__)
  call MPI_File_get_atomicity(file, flag, code)
  call expect(flag, __LINE__, 'atomic mode to be on')

  call MPI_File_create_errhandler(note, handler, code)
  call expect_ok(code, __LINE__)
  call MPI_File_set_errhandler(file, handler, code)
  call expect_ok(code, __LINE__)
  call MPI_File_seek(file, -1_MPI_OFFSET_KIND, MPI_SEEK_SET, code)
  call expect(code /= MPI_SUCCESS, __LINE__, 'an error from a negative seek')
  call expect(handled == 1, __LINE__, 'one call of the error handler')
  call MPI_File_get_amode(file, amode, code)
  call expect(handled_amode == amode .and. amode /= 0, __LINE__, 'a handle of the file in the error handler')
  call MPI_Error_class(handled_code, class, code)
  call expect(class == MPI_ERR_ARG, __LINE__, 'class MPI_ERR_ARG in the error handler')
  call MPI_File_call_errhandler(file, MPI_ERR_IO, code)
  call expect(handled == 2, __LINE__, 'a second call of the error handler')
  call MPI_Errhandler_free(handler, code)

  call MPI_File_close(file, code)
  call expect_ok(code, __LINE__)
  call expect(file == MPI_FILE_NULL, __LINE__, 'a null handle after close')
  call MPI_File_open(MPI_COMM_WORLD, trim(name)//'.absent', MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
  call MPI_Error_class(code, class, i)
  call expect(class == MPI_ERR_NO_SUCH_FILE, __LINE__, 'class MPI_ERR_NO_SUCH_FILE')
  if (rank == 0) then
    call MPI_File_delete(name, MPI_INFO_NULL, code)
    call expect_ok(code, __LINE__)
  end if
  call MPI_Type_free(filetype, code)

  call MPI_Reduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, code)
  if (rank == 0) then
    if (all_failures == 0) print '(a)', 'ok'
    if (all_failures /= 0) print '(i0,a)', all_failures, ' failures'
  end if
  call MPI_Finalize(code)
end program
