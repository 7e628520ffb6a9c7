"""Reads what matters for preloading from an ELF file: machine, interpreter, needed libraries, whether it has MPI inside.

Treats the file as hostile: every offset is checked against the file, every table has a bound.
"""

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MACHINES = {2: "SPARC", 3: "x86", 20: "PowerPC", 21: "PowerPC64", 22: "S390", 40: "Arm", 62: "x86-64", 183: "AArch64",
            243: "RISC-V", 258: "LoongArch"}  # fmt: skip
# Defined by an MPI library and by nothing else: tools define MPI_Init, never its PMPI_ twin.
OWN_MPI = (b"PMPI_Init", b"PMPI_Init_thread")
LARGEST_TABLE = 1 << 28


class NotElf(ValueError):
    """The file is no ELF file, or one that contradicts itself."""


@dataclass
class Elf:
    bits: int
    little_endian: bool
    machine: int
    interpreter: str = ""
    soname: str = ""
    needed: list[str] = field(default_factory=list)
    defines_mpi: bool = False

    @property
    def statically_linked(self) -> bool:
        """No interpreter: the kernel starts it directly and nothing reads LD_PRELOAD."""
        return not self.interpreter

    @property
    def machine_text(self) -> str:
        name = MACHINES.get(self.machine, f"machine {self.machine}")
        return f"{name}, {self.bits} bit, {'little' if self.little_endian else 'big'} endian"

    def same_machine(self, other: "Elf") -> bool:
        return (self.bits, self.little_endian, self.machine) == (other.bits, other.little_endian, other.machine)


class _Reader:
    def __init__(self, data: bytes | mmap.mmap) -> None:
        self.data = data
        self.size = len(data)
        self.order = "<"

    def unpack(self, layout: str, offset: int) -> tuple[int, ...]:
        layout = self.order + layout
        if offset < 0 or offset + struct.calcsize(layout) > self.size:
            raise NotElf(f"a header at byte {offset} lies beyond the end of the file")
        return struct.unpack_from(layout, self.data, offset)

    def bytes_at(self, offset: int, count: int) -> bytes:
        if offset < 0 or count < 0 or count > LARGEST_TABLE or offset + count > self.size:
            raise NotElf(f"a table of {count} bytes at byte {offset} lies beyond the end of the file")
        return bytes(self.data[offset : offset + count])


@dataclass
class _Segment:
    kind: int
    offset: int
    address: int
    file_size: int


@dataclass
class _Section:
    kind: int
    offset: int
    size: int
    link: int


_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME = 1, 5, 10, 14


def _text(table: bytes, offset: int) -> bytes:
    if not 0 <= offset < len(table):
        raise NotElf("a name lies outside its string table")
    end = table.find(b"\0", offset)
    return table[offset : end if end >= 0 else len(table)]


def _file_offset(segments: list[_Segment], address: int) -> int:
    for segment in segments:
        if segment.kind == _PT_LOAD and segment.address <= address < segment.address + segment.file_size:
            return address - segment.address + segment.offset
    raise NotElf(f"address {address:#x} is in no loaded segment")


def _read_dynamic(reader: _Reader, elf: Elf, segments: list[_Segment]) -> None:
    for segment in segments:
        if segment.kind != _PT_DYNAMIC:
            continue
        table = reader.bytes_at(segment.offset, segment.file_size)
        layout = reader.order + ("qQ" if elf.bits == 64 else "iI")
        usable = len(table) - len(table) % struct.calcsize(layout)
        entries = [(tag, value) for tag, value in struct.iter_unpack(layout, table[:usable])]
        values = dict(entries)
        if _DT_STRTAB not in values:
            return
        names = reader.bytes_at(_file_offset(segments, values[_DT_STRTAB]), values.get(_DT_STRSZ, 0))
        elf.needed = [_text(names, value).decode(errors="replace") for tag, value in entries if tag == _DT_NEEDED]
        if _DT_SONAME in values:
            elf.soname = _text(names, values[_DT_SONAME]).decode(errors="replace")


def _defined_names(reader: _Reader, elf: Elf, sections: list[_Section]) -> Iterator[bytes]:
    layout = reader.order + ("IBBHQQ" if elf.bits == 64 else "IIIBBH")
    section_index_at = 3 if elf.bits == 64 else 5
    for section in sections:
        if section.kind not in (_SHT_SYMTAB, _SHT_DYNSYM) or not 0 <= section.link < len(sections):
            continue
        strings = sections[section.link]
        names = reader.bytes_at(strings.offset, strings.size)
        symbols = reader.bytes_at(section.offset, section.size)
        if not any(name in names for name in OWN_MPI):
            continue
        for symbol in struct.iter_unpack(layout, symbols[: len(symbols) - len(symbols) % struct.calcsize(layout)]):
            if symbol[section_index_at] != 0:
                yield _text(names, symbol[0])


def parse(data: bytes | mmap.mmap) -> Elf:
    """Reads `data`, a whole file.  Raises NotElf with a sentence."""
    if len(data) < 20 or bytes(data[:4]) != b"\x7fELF":
        raise NotElf("no ELF file")
    if data[4] not in (1, 2) or data[5] not in (1, 2):
        raise NotElf(f"unknown ELF class {data[4]} or byte order {data[5]}")
    reader = _Reader(data)
    reader.order = "<" if data[5] == 1 else ">"
    elf = Elf(bits=32 * data[4], little_endian=data[5] == 1, machine=reader.unpack("H", 18)[0])
    wide = elf.bits == 64
    program_at, section_at = reader.unpack("QQ" if wide else "II", 32 if wide else 28)
    program_size, program_count, section_size, section_count = reader.unpack("HHHH", 54 if wide else 42)
    segments = []
    for index in range(program_count):
        row = reader.unpack("IIQQQQ" if wide else "IIIII", program_at + index * program_size)
        if wide:
            segments.append(_Segment(kind=row[0], offset=row[2], address=row[3], file_size=row[5]))
        else:
            segments.append(_Segment(kind=row[0], offset=row[1], address=row[2], file_size=row[4]))
    sections = []
    for index in range(section_count if section_at else 0):
        row = reader.unpack("IIQQQQIIQQ" if wide else "IIIIIIIIII", section_at + index * section_size)
        sections.append(_Section(kind=row[1], offset=row[4], size=row[5], link=row[6]))
    for segment in segments:
        if segment.kind == _PT_INTERP:
            elf.interpreter = reader.bytes_at(segment.offset, segment.file_size).rstrip(b"\0").decode(errors="replace")
    _read_dynamic(reader, elf, segments)
    elf.defines_mpi = any(name in OWN_MPI for name in _defined_names(reader, elf, sections))
    return elf


def read(path: Path) -> Elf:
    """Reads the file at `path`.  Raises OSError or NotElf."""
    with path.open("rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return parse(data)
        except ValueError as error:  # an empty file can not be mapped
            if isinstance(error, NotElf):
                raise
            raise NotElf("empty file") from error
