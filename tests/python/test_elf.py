"""penstock.elf: real files, and files that lie."""

import contextlib
import shutil
import struct
import sys
from pathlib import Path

import pytest
from conftest import compile_c
from hypothesis import given, settings
from hypothesis import strategies as some
from penstock import elf


def test_dynamic_program(program):
    found = elf.read(program)
    assert found.interpreter and not found.statically_linked
    assert any(name.startswith("libc.so") for name in found.needed)
    assert not found.defines_mpi


def test_library(library):
    assert elf.read(library).same_machine(elf.read(library))
    assert elf.read(library).bits == (64 if sys.maxsize > 2**32 else 32)


def test_static_program(needs_static):
    assert elf.read(needs_static).statically_linked


def test_static_pie_has_no_interpreter_either(tmp_path):
    try:
        path = compile_c("int main(void) { return 0; }", tmp_path / "pie", "-static-pie")
    except Exception:
        pytest.skip("cc can not link a static PIE here")
    assert elf.read(path).statically_linked


def test_mpi_inside_is_seen_by_its_profiling_twin_only(tmp_path):
    inside = compile_c("int PMPI_Init(void) { return 0; } int main(void) { return PMPI_Init(); }", tmp_path / "inside")
    tool = compile_c("int MPI_Init(void) { return 0; } int main(void) { return MPI_Init(); }", tmp_path / "tool")
    assert elf.read(inside).defines_mpi
    assert not elf.read(tool).defines_mpi


@pytest.mark.parametrize(
    "content", [b"", b"\x7fEL", b"#!/bin/sh\n", b"\x7fELF" + b"\0" * 60, b"\x7fELF\x03\x01" + b"\0" * 60]
)
def test_no_elf(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(elf.NotElf):
        elf.read(path)


def test_table_beyond_the_end(program):
    data = bytearray(program.read_bytes())
    struct.pack_into("<Q", data, 32, 1 << 62)
    with pytest.raises(elf.NotElf, match="beyond the end"):
        elf.parse(bytes(data))


@settings(max_examples=300, deadline=None)
@given(
    changes=some.lists(some.tuples(some.integers(0, 1023), some.integers(0, 255)), max_size=12),
    cut=some.integers(0, 4096),
)
def test_damaged_files_give_facts_or_NotElf(changes, cut):
    data = bytearray(_small_program())
    for position, value in changes:
        data[position % len(data)] = value
    with contextlib.suppress(elf.NotElf):
        elf.parse(bytes(data[: len(data) - cut % len(data)]))


def _small_program() -> bytes:
    return Path(shutil.which("true")).read_bytes()
