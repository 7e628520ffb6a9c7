#!/usr/bin/env python3
# MPI-IO from Python by mpi4py: the calls that Python programs use, with NumPy buffers.
# ranks: 1 3 4
# time limit: 60
"""Prints ok from rank 0 when every check passed on every rank."""

import inspect
import os
import sys
from pathlib import Path

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
directory = os.environ.get("PENSTOCK_TEST_DIRECTORY", ".")
number = world.bcast(os.getpid(), root=0)
failures = 0


def expect(got, expected):
    """Notes a failure with the caller's line when the two differ."""
    global failures
    if numpy.array_equal(got, expected):
        return
    failures += 1
    line = inspect.currentframe().f_back.f_lineno
    print(f"io_python.py:{line}: rank {rank} of {size}: expected {expected}, got {got}", file=sys.stderr, flush=True)


def expect_class(call, *classes):
    """The call raises an MPI exception of one of the classes."""
    got = "no exception"
    try:
        call()
    except MPI.Exception as error:
        got = error.Get_error_class()
    global failures
    if got in classes:
        return
    failures += 1
    line = inspect.currentframe().f_back.f_lineno
    print(
        f"io_python.py:{line}: rank {rank} of {size}: expected class {classes}, got {got}", file=sys.stderr, flush=True
    )


def scratch(name):
    return str(Path(directory) / f"io_python-{number}-{name}")


def strided_view():
    """Interleaved integers, written collectively, read in every way."""
    name = scratch("strided")
    file = MPI.File.Open(world, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
    expect(file.Get_amode(), MPI.MODE_CREATE | MPI.MODE_RDWR)
    expect(file.Get_group().Get_size(), size)
    filetype = MPI.INT.Create_vector(10, 1, size).Commit()
    file.Set_view(4 * rank, MPI.INT, filetype)
    displacement, etype, back_type, representation = file.Get_view()
    expect(displacement, 4 * rank)
    expect(etype == MPI.INT, True)
    expect(representation, "native")
    values = numpy.arange(10, dtype="i4") + 100 * rank
    back = numpy.full(10, -1, dtype="i4")
    status = MPI.Status()
    file.Write_all(values, status)
    expect(status.Get_count(MPI.INT), 10)
    expect(file.Get_position(), 10)
    expect(file.Get_byte_offset(2), 4 * rank + 8 * size)
    file.Sync()
    world.Barrier()
    expect(file.Get_size(), 40 * size)
    for read in (
        lambda: file.Read_at(0, back),
        lambda: file.Read_at_all(0, back),
        lambda: file.Iread_at(0, back).Wait(),
    ):
        back[:] = -1
        read()
        expect(back, values)
    file.Seek(0)
    back[:] = -1
    file.Iread(back).Wait(status)
    expect(back, values)
    expect(status.Get_count(MPI.INT), 10)
    file.Read_at_all_begin(0, back)
    file.Read_at_all_end(back)
    expect(back, values)
    file.Close()
    filetype.Free()
    world.Barrier()
    if rank == 0:
        whole = numpy.fromfile(name, dtype="i4").reshape(10, size)
        for other in range(size):
            expect(whole[:, other], numpy.arange(10) + 100 * other)
        MPI.File.Delete(name)


def end_of_file():
    """Counts at and past the end."""
    name = scratch("end")
    if rank == 0:
        numpy.arange(25, dtype="i4").tofile(name)
    world.Barrier()
    file = MPI.File.Open(world, name, MPI.MODE_RDONLY)
    file.Set_view(0, MPI.INT, MPI.INT)
    status = MPI.Status()
    back = numpy.full(10, -1, dtype="i4")
    for offset, expected in ((0, 10), (20, 5), (25, 0), (1000, 0)):
        file.Read_at(offset, back, status)
        expect(status.Get_count(MPI.INT), expected)
        file.Read_at_all(offset, back, status)
        expect(status.Get_count(MPI.INT), expected)
    expect_class(lambda: file.Write_at(0, back), MPI.ERR_READ_ONLY, MPI.ERR_ACCESS, MPI.ERR_AMODE)
    file.Close()
    world.Barrier()
    if rank == 0:
        MPI.File.Delete(name)


def shared_pointer():
    """Ordered writes, and shared ones."""
    name = scratch("shared")
    file = MPI.File.Open(world, name, MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE)
    file.Set_view(0, MPI.INT, MPI.INT)
    mine = numpy.full(rank + 1, rank, dtype="i4")
    file.Write_ordered(mine)
    total = size * (size + 1) // 2
    world.Barrier()
    expect(file.Get_position_shared(), total)
    world.Barrier()
    file.Write_shared(mine[:1])
    file.Sync()
    world.Barrier()
    file.Sync()
    back = numpy.full(total + size, -1, dtype="i4")
    file.Read_at(0, back)
    expect(back[:total], numpy.concatenate([numpy.full(r + 1, r) for r in range(size)]))
    expect(numpy.sort(back[total:]), numpy.arange(size))
    file.Close()
    world.Barrier()
    expect(Path(name).exists(), False)


def errors_and_info():
    """Classes of errors, hints, atomic mode, external32."""
    expect_class(lambda: MPI.File.Open(world, scratch("absent"), MPI.MODE_RDONLY), MPI.ERR_NO_SUCH_FILE)
    expect_class(lambda: MPI.File.Open(world, scratch("absent"), MPI.MODE_RDONLY | MPI.MODE_CREATE), MPI.ERR_AMODE)
    name = scratch("info")
    info = MPI.Info.Create()
    info.Set("access_style", "write_once")
    file = MPI.File.Open(world, name, MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE, info)
    info.Free()
    file.Get_info().Free()
    expect_class(lambda: file.Seek(-1), MPI.ERR_ARG)
    file.Set_atomicity(True)
    expect(bool(file.Get_atomicity()), True)
    file.Set_size(1000)
    world.Barrier()
    expect(file.Get_size(), 1000)
    file.Set_view(8 * rank, MPI.DOUBLE, MPI.DOUBLE, "external32")
    expect(file.Get_type_extent(MPI.LONG), 4)
    values = numpy.array([1.5 + rank])
    back = numpy.zeros(1)
    file.Write_at_all(0, values)
    file.Read_at(0, back)
    expect(back, values)
    file.Set_view(0, MPI.BYTE, MPI.BYTE, "native")
    world.Barrier()
    raw = numpy.zeros(8, dtype="u1")
    file.Read_at(8 * rank, raw)
    expect(raw, numpy.frombuffer(values.astype(">f8").tobytes(), dtype="u1"))
    expect(MPI.File.f2py(file.py2f()) == file, True)
    file.Close()
    expect(bool(file), False)


def main():
    for test in (strided_view, end_of_file, shared_pointer, errors_and_info):
        test()
        world.Barrier()
    together = world.allreduce(failures)
    if rank == 0:
        print("ok" if together == 0 else f"{together} failures", flush=True)


main()
