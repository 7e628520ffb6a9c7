"""MPICH's own tests of MPI-IO (test/mpi: C, Fortran 77, Fortran 90, Fortran 2008, and C++ on MPICH), with the rank counts of their testlists.

Only their configure runs (it writes headers and generates Fortran sources); programs are compiled with the wrappers directly,
because their makefiles pull in a datatype library that does not compile against every MPI, and leave Fortran 2008 out.
"""

import shlex
from pathlib import Path

from implementations import Implementation
from sources import debian_source

import build
from model import Missing, Step, Suite, Test

NAME = "mpich"

# Directory under test/mpi -> its language.
DIRECTORIES = {
    "io": "c",
    "errors/io": "c",
    "f77/io": "f77",
    "errors/f77/io": "f77",
    "f90/io": "f90",
    "errors/f90/io": "f90",
    "f08/io": "f08",
    "errors/f08/io": "f08",
    "cxx/io": "cxx",
    "errors/cxx/io": "cxx",
}
SUFFIXES = {"c": ".c", "f77": ".f", "f90": ".f90", "f08": ".f90", "cxx": ".cxx"}
# A second source in another language, and programs that are written in C although they stand among Fortran ones.
SECOND_SOURCE = {"c2f2ciof": "c2f2cio.c", "c2f2ciof90": "c2f902cio.c"}

SKIPPED = {
    "errors/f08/io/uerrhandf08": "does not compile with any mpi_f08 module: it declares a type MPI_Errhandles, which the standard does not have",
}
# Run, but no fault of ours when they fail: they ask what MPI 4.1 does not.
DIFFERS = {
    "io/tst_fileview": "wants class MPI_ERR_IO for a filetype that is not allowed, where the standard names no class (MPI_ERR_TYPE here and, for "
    "most of its filetypes, in Open MPI), and wants a filetype whose displacements go backwards taken when the file is only read; section 14.1.1 "
    "asks of every filetype that they do not decrease",
}
ONLY_MPICH = {
    "cxx": "the C++ bindings left the standard with MPI-3.0; only MPICH still has them",
}
LONG_SECONDS = {"io/bigtype": 600.0, "io/i_bigtype": 600.0}
# Thousands of collective calls of a few bytes each: slow where ranks outnumber cores.
LANGUAGE_SECONDS = {"c": 120.0, "f77": 300.0, "f90": 300.0, "f08": 300.0, "cxx": 300.0}


def parse_testlist(text: str) -> list[tuple[str, int, dict[str, list[str]]]]:
    """Name, ranks and settings (arg=, env=, mem=, ...) of each line."""
    rows = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if len(words) < 2 or not words[1].isdigit():
            continue
        settings: dict[str, list[str]] = {}
        for word in words[2:]:
            key, _, value = word.partition("=")
            settings.setdefault(key, []).append(value)
        rows.append((words[0], int(words[1]), settings))
    return rows


def _configure(tests: Path, root: Path, on: Implementation, languages: set[str]) -> None:
    log = root / "configure.log"
    stamp = root / "configured"
    if stamp.exists():
        return
    compilers = {"CC": on.cc, "MPICC": on.cc}
    options = ["--disable-spawn", "--disable-dtpools"]
    if "f77" in languages:
        compilers |= {
            "F77": on.fc,
            "MPIF77": on.fc,
            "FC": on.fc,
            "MPIFC": on.fc,
            "FFLAGS": "-fallow-argument-mismatch",
            "FCFLAGS": "-fallow-argument-mismatch",
        }
        options.append("--enable-fortran=all")
    else:
        options.append("--enable-fortran=none")
    if "cxx" in languages:
        compilers |= {"CXX": on.cxx, "MPICXX": on.cxx}
    else:
        options.append("--disable-cxx")
    environment = on.base_environment()
    build.run(
        [str(tests / "configure"), *(f"{key}={value}" for key, value in compilers.items()), *options],
        root,
        log,
        "mpich tests",
        environment,
    )
    for directory, language in DIRECTORIES.items():
        if language in languages and (tests / directory / "ioharness.tlt").exists():
            build.run(["make", "-C", directory, "gen-src-stamp"], root, log, "mpich tests", environment)
    (root / "unit.h").write_text("/* f08/io/c2f902cio.c names a variable it does not declare. */\nstatic int errs;\n")
    stamp.touch()


def _fortran_90_sources(tests: Path, root: Path, on: Implementation) -> None:
    """The releases leave out what their own script makes of the Fortran 77 sources (`use mpi` in place of mpif.h)."""
    stamp = root / "fortran-90-made"
    if stamp.exists():
        return
    script = ["perl", str(tests / "maint" / "f77tof90"), str(root / "f77" / "io"), str(root / "f90" / "io")]
    build.run(script, root, root / "fortran-90.log", "mpich tests", on.base_environment())
    stamp.touch()


def _objects(tests: Path, root: Path, on: Implementation, languages: set[str], log: Path) -> dict[str, list[str]]:
    """Compiles their utility sources; returns what each language links with."""
    includes = [f"-I{root / 'include'}", f"-I{tests / 'include'}"]
    kinds = {
        "c": [("mtest.c", on.cc), ("mtest_common.c", on.cc), ("mtest_single.c", on.cc)],
        "f77": [("mtest_f77.f", on.fc)],
        "f90": [("mtest_f90.f90", on.fc)],
        "f08": [("mtest_f08.f90", on.fc)],
        "cxx": [("mtest_cxx.cxx", on.cxx), ("mtest_common.c", on.cc)],
    }
    programs, linked = [], {}
    for language in sorted(languages):
        linked[language] = []
        for source, compiler in kinds[language]:
            output = root / "objects" / language / (source + ".o")
            flags = ["-fallow-argument-mismatch"] if compiler == on.fc else includes
            programs.append(
                build.Program(
                    source,
                    (compiler, "-O1", "-w", *flags, "-c", str(tests / "util" / source), "-o", str(output)),
                    output,
                )
            )
            linked[language].append(str(output))
    failed = build.compile_all(programs, root, log, on.base_environment())
    if failed:
        raise Missing(f"mpich tests: their utility sources do not compile: {failed}")
    return linked


def _command(
    name: str,
    directory: str,
    language: str,
    tests: Path,
    root: Path,
    on: Implementation,
    linked: dict[str, list[str]],
    output: Path,
) -> list[str]:
    def located(file: str) -> Path:
        generated = root / directory / file
        return generated if generated.exists() else tests / directory / file

    includes = [f"-I{root / directory}", f"-I{root / 'include'}", f"-I{tests / 'include'}", f"-I{tests / directory}"]
    source = located(name + SUFFIXES[language])
    if not source.exists() or language == "c":  # a C program, also where it stands among Fortran ones
        return [on.cc, "-O1", "-w", *includes, str(located(name + ".c")), *linked["c"], "-lm", "-o", str(output)]
    if language == "cxx":
        return [on.cxx, "-O1", "-w", *includes, str(source), *linked["cxx"], "-o", str(output)]
    if name in SECOND_SOURCE:
        second = located(SECOND_SOURCE[name])
        object_file = str(output) + ".second.o"
        compiled = [
            on.cc,
            "-O1",
            "-w",
            *includes,
            *(["-include", str(root / "unit.h")] if language == "f08" else []),
            "-c",
            str(second),
            "-o",
            object_file,
        ]
        link = [
            on.fc,
            "-O1",
            "-w",
            "-fallow-argument-mismatch",
            *includes,
            f"-J{output.parent}",
            str(source),
            object_file,
            *linked[language],
            *(linked["c"] if language == "f08" else []),
            "-o",
            str(output),
        ]
        return ["sh", "-c", f"{shlex.join(compiled)} && {shlex.join(link)}"]
    return [
        on.fc,
        "-O1",
        "-w",
        "-fallow-argument-mismatch",
        *includes,
        f"-J{output.parent}",
        str(source),
        *linked[language],
        "-o",
        str(output),
    ]


def prepare(on: Implementation, cache: Path) -> Suite:
    if not on.cc:
        raise Missing(f"{NAME} on {on.name}: it brings no compiler wrapper")
    source = debian_source("mpich", cache)
    tests = source.tree / "test" / "mpi"
    languages = {"c"}
    if on.fc:
        languages |= {"f77", "f90", "f08"}
    if on.cxx and on.family == "mpich":
        languages.add("cxx")
    root = cache / "build" / on.key / f"{NAME}-{source.version}"
    root.mkdir(parents=True, exist_ok=True)
    _configure(tests, root, on, languages)
    if "f90" in languages:
        _fortran_90_sources(tests, root, on)
    log = root / "build.log"
    linked = _objects(tests, root, on, languages, log)

    rows, programs = [], []
    for directory, language in DIRECTORIES.items():
        listed = next(
            path for path in (tests / directory / "testlist.in", tests / directory / "testlist") if path.exists()
        )
        for name, ranks, settings in parse_testlist(listed.read_text()):
            identity = f"{directory}/{name}"
            output = root / "programs" / directory / name
            skip = SKIPPED.get(identity, "")
            if language not in languages:
                skip = (
                    f"{on.name}: {ONLY_MPICH[language]}"
                    if language in ONLY_MPICH
                    else f"{on.name}: it brings no Fortran compiler wrapper"
                )
            if not skip:
                programs.append(
                    build.Program(
                        identity, tuple(_command(name, directory, language, tests, root, on, linked, output)), output
                    )
                )
            rows.append((identity, output, ranks, settings, skip))
    missing = build.compile_all(programs, root, log, on.base_environment())

    made = []
    for identity, output, ranks, settings, skip in rows:
        if identity in missing:
            continue
        environment = tuple(tuple(value.split("=", 1)) for value in settings.get("env", []))
        step = Step(str(output), tuple(settings.get("arg", [])), ranks, "no errors", environment)
        memory = float(settings.get("mem", ["0"])[0])
        made.append(
            Test(
                NAME,
                identity,
                (step,),
                LONG_SECONDS.get(identity, LANGUAGE_SECONDS[DIRECTORIES[identity.rpartition("/")[0]]]),
                memory,
                memory,
                skip=skip,
                differs=DIFFERS.get(identity, ""),
            )
        )
    return Suite(NAME, made, [source.as_dict()], missing)
