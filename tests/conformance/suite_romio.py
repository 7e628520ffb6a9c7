"""ROMIO's own tests (src/mpi/romio/test, C and Fortran), with the ranks and arguments of their runtests script."""

from pathlib import Path

from implementations import Implementation
from sources import debian_source

import build
from model import Missing, Step, Suite, Test

NAME = "romio"

# What their configure would put in: Fortran 77's ways to read arguments and to declare offsets, printf's for long long.
SUBSTITUTIONS = {
    "@F77MPIOINC@": "",
    "@FORTRAN_MPI_OFFSET@": "integer*8",
    "@F77IARGC@": "iargc()",
    "@F77GETARG@": "call getarg(i, str)",
    "@LL@": "lld",
}

FILE = "testfile"
NAMED = ("-fname", FILE)
# name -> ranks, arguments, rule.  The first group is what runtests runs; the second it builds and leaves to the reader.
TESTS: dict[str, tuple[int, tuple[str, ...], str]] = {
    "simple": (4, NAMED, "no errors among"),
    "async": (4, NAMED, "no errors among"),
    "async-multiple": (4, NAMED, "no errors among"),
    "atomicity": (4, NAMED, "no errors among"),
    "coll_test": (4, NAMED, "no errors among"),
    "excl": (4, NAMED, "no errors among"),
    "file_info": (4, NAMED, "no errors among"),
    "i_noncontig": (2, NAMED, "no errors among"),
    "noncontig": (2, NAMED, "no errors among"),
    "noncontig_coll": (2, NAMED, "no errors among"),
    "noncontig_coll2": (4, NAMED, "no errors among"),
    "aggregation1": (4, ("-h", "-f", FILE), "no errors among"),
    "aggregation2": (4, (FILE,), "no errors among"),
    "hindexed": (4, (FILE,), "no errors among"),
    "misc": (4, NAMED, "no errors among"),
    "shared_fp": (4, NAMED, "no errors among"),
    "ordered_fp": (4, NAMED, "no errors among"),
    "split_coll": (4, NAMED, "no errors among"),
    "psimple": (4, NAMED, "no errors among"),
    "error": (1, NAMED, "no errors among"),
    "status": (1, NAMED, "no errors among"),
    "types_with_zeros": (2, (FILE,), "no errors among"),
    "darray_read": (4, (FILE,), "no errors among"),
    "syshints": (1, ("test_hintfile",), "no errors among"),
    "fmisc": (4, NAMED, "no errors among"),
    "fcoll_test": (4, NAMED, "no errors among"),
    "pfcoll_test": (4, NAMED, "no errors among"),
    "perf": (4, NAMED, "silent"),
    "coll_perf": (4, NAMED, "silent"),
    "fperf": (4, NAMED, "silent"),
    "large_array": (4, NAMED, "silent"),
    "large_file": (1, NAMED, "silent"),
    "external32": (1, (), "external32 is big-endian"),
    "big_extents": (4, (FILE,), "no errors among"),
    "creat_excl": (4, NAMED, "no errors among"),
}
SKIPPED = {"coll_perf": "a benchmark that writes and reads 14 GB and looks at none of it"}
# They mark bounds with MPI_LB and MPI_UB.
USE_REMOVED_MARKERS = {"noncontig", "i_noncontig", "noncontig_coll", "noncontig_coll2"}
# They use ROMIO's own type of requests, which MPICH has no longer since 5.0.
USE_ROMIO_REQUESTS = {"async", "i_noncontig"}
LONG_SECONDS = {"large_array": 600.0, "large_file": 300.0, "atomicity": 300.0, "big_extents": 300.0}
MEMORY_GIB = {"large_array": 5.0}
DISK_GIB = {"large_array": 5.0, "large_file": 5.0}


def _source(name: str, directory: Path, root: Path) -> Path:
    """The source of a program; templates are filled in."""
    for suffix in (".c", ".c.in", ".f.in"):
        path = directory / (name + suffix)
        if not path.exists():
            continue
        if not suffix.endswith(".in"):
            return path
        text = path.read_text()
        for mark, value in SUBSTITUTIONS.items():
            text = text.replace(mark, value)
        filled = root / "sources" / path.name.removesuffix(".in")
        filled.parent.mkdir(parents=True, exist_ok=True)
        filled.write_text(text)
        return filled
    raise Missing(f"{NAME}: no source of {name} in {directory}")


def prepare(on: Implementation, cache: Path) -> Suite:
    if not on.cc:
        raise Missing(f"{NAME} on {on.name}: it brings no compiler wrapper")
    source = debian_source("mpich", cache)
    directory = source.tree / "src" / "mpi" / "romio" / "test"
    root = cache / "build" / on.key / f"{NAME}-{source.version}"
    root.mkdir(parents=True, exist_ok=True)
    programs, skips = [], {}
    for name in TESTS:
        path, output = _source(name, directory, root), root / "programs" / name
        if path.suffix == ".f" and not on.fc:
            skips[name] = f"{on.name}: it brings no Fortran compiler wrapper"
            continue
        if name in SKIPPED:
            skips[name] = SKIPPED[name]
            continue
        markers = (
            ["-include", str(Path(__file__).with_name("removed_markers.h"))]
            if on.family == "openmpi" and name in USE_REMOVED_MARKERS
            else []
        )
        if on.family == "mpich" and name in USE_ROMIO_REQUESTS and on.version.partition(".")[0] not in ("3", "4"):
            markers = ["-DMPIO_Request=MPI_Request", "-DMPIO_USES_MPI_REQUEST"]
        compiler = (
            [on.cc, "-O1", "-w", *markers] if path.suffix == ".c" else [on.fc, "-O1", "-w", "-fallow-argument-mismatch"]
        )
        programs.append(build.Program(name, (*compiler, str(path), "-lm", "-o", str(output)), output))
    missing = build.compile_all(programs, root, root / "build.log", on.base_environment())
    made = []
    for name, (ranks, arguments, rule) in TESTS.items():
        if name in missing:
            continue
        step = Step(str(root / "programs" / name), arguments, ranks, rule)
        copies = (str(directory / "test_hintfile"),) if name == "syshints" else ()
        made.append(
            Test(
                NAME,
                name,
                (step,),
                LONG_SECONDS.get(name, 120.0),
                MEMORY_GIB.get(name, 0.0),
                DISK_GIB.get(name, 0.0),
                copies,
                skips.get(name, ""),
            )
        )
    return Suite(NAME, made, [source.as_dict()], missing)
