"""HDF5's parallel tests (testpar), with a parallel libhdf5 that is built once for each MPI and kept."""

import re
import subprocess
from pathlib import Path

from implementations import Implementation
from sources import debian_source

import build
from model import Missing, Step, Suite, Test

NAME = "hdf5"
PROGRAMS = (
    "t_mpi",
    "t_bigio",
    "testphdf5",
    "t_cache",
    "t_cache_image",
    "t_pread",
    "t_pshutdown",
    "t_prestart",
    "t_init_term",
    "t_shapesame",
    "t_filters_parallel",
    "t_pflush1",
    "t_pflush2",
)
RANKS = 4
RULE = "no failed line"
LONG_SECONDS = {
    "t_bigio": 900.0,
    "t_cache": 900.0,
    "t_cache_image": 900.0,
    "t_filters_parallel": 600.0,
    "t_pread": 300.0,
    "t_shapesame": 900.0,
}
MEMORY_GIB = {"t_bigio": 6.0}
DISK_GIB = {"t_bigio": 10.0}
CASE_SECONDS = 240.0
STARTS_ITSELF = {"t_cache_image"}  # by its name in the directory where it runs
# Tests that read the file that another leaves; testphdf5 removes its files when it ends, so both run in one go.
READS_FILE_OF = {
    "idsetr": "idsetw",
    "cdsetr": "cdsetw",
    "eidsetr": "eidsetw",
    "ecdsetr": "ecdsetw",
    "ngrpr": "ngrpw",
    "ccontr": "ccontw",
    "cschunkr": "cschunkw",
    "ccchunkr": "ccchunkw",
}


def listed_tests(source: str) -> list[str]:
    """The names of testphdf5's tests, from its calls of AddTest.

    A test that a condition switches off has a minus before its name, and the name itself after the colon.
    """
    found = re.findall(r'AddTest\(\s*(?:\([^"]*\?\s*"[^"]*"\s*:\s*)?"([^"]+)"', source)
    return list(dict.fromkeys(found))


def chosen(name: str, names: list[str]) -> list[str]:
    """The arguments that make testphdf5 run one of its tests `names`, after the one whose file it reads."""
    before = READS_FILE_OF.get(name)
    if before is None:
        return ["-o", name]  # takes one name only
    return [word for other in names if other not in (name, before) for word in ("-x", other)]


def _preprocessed(on: Implementation, tree: Path, root: Path) -> str:
    """testphdf5.c as it was compiled, without the tests that its own conditions leave out."""
    includes = [f"-I{directory / part}" for directory in (root, tree) for part in ("src", "test", "testpar")]
    command = [on.cc, "-E", *includes, str(tree / "testpar" / "testphdf5.c")]
    done = subprocess.run(command, capture_output=True, text=True, env=on.base_environment(), check=False)
    if done.returncode != 0:
        raise Missing(f"{NAME}: the preprocessor does not take testphdf5.c: {done.stderr.strip()[-300:]}")
    return done.stdout


def prepare(on: Implementation, cache: Path) -> Suite:
    if not on.cc:
        raise Missing(f"{NAME} on {on.name}: it brings no compiler wrapper")
    source = debian_source("hdf5", cache)
    root = cache / "build" / on.key / f"{NAME}-{source.version}"
    root.mkdir(parents=True, exist_ok=True)
    log, environment = root / "build.log", on.base_environment()
    if not (root / "complete").exists():
        if not (root / "Makefile").exists():
            options = [
                f"CC={on.cc}",
                "CFLAGS=-O1 -w",
                "--enable-parallel",
                "--disable-shared",
                "--disable-hl",
                "--disable-cxx",
                "--disable-fortran",
                "--disable-java",
                "--disable-tools",
                "--enable-build-mode=production",
            ]
            build.run([str(source.tree / "configure"), *options], root, log, NAME, environment)
        for arguments in (["-C", "src"], ["-C", "test", "libh5test.la"], ["-C", "testpar", *PROGRAMS]):
            build.run(["make", f"-j{build.JOBS}", *arguments], root, log, NAME, environment)
        (root / "complete").touch()

    programs = root / "testpar"

    def step(name: str, *arguments: str, rule: str = RULE) -> Step:
        settings = {"HDF5_ALARM_SECONDS": "3600", "srcdir": str(source.tree / "testpar")}
        return Step(str(programs / name), arguments, RANKS, rule, tuple(sorted(settings.items())))

    names = listed_tests(_preprocessed(on, source.tree, root))
    made = [Test(NAME, f"testphdf5/{name}", (step("testphdf5", *chosen(name, names)),), CASE_SECONDS) for name in names]
    if not made:
        raise Missing(f"{NAME}: no AddTest in testphdf5.c")
    alone = (
        "t_mpi",
        "t_bigio",
        "t_cache",
        "t_cache_image",
        "t_pread",
        "t_init_term",
        "t_shapesame",
        "t_filters_parallel",
    )
    made += [
        Test(
            NAME,
            name,
            (step(name),),
            LONG_SECONDS.get(name, 240.0),
            MEMORY_GIB.get(name, 0.0),
            DISK_GIB.get(name, 0.0),
            copies=(str(programs / name),) if name in STARTS_ITSELF else (),
        )
        for name in alone
    ]
    made.append(
        Test(NAME, "t_pflush1+t_pflush2", (step("t_pflush1", rule="gives up after passing"), step("t_pflush2")), 240.0)
    )
    made.append(Test(NAME, "t_pshutdown+t_prestart", (step("t_pshutdown"), step("t_prestart")), 240.0))
    return Suite(NAME, made, [source.as_dict()])
