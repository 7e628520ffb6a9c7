"""PnetCDF's tests (`make check` and `make ptest`), with a libpnetcdf that is built once for each MPI and kept.

Programs that PnetCDF runs in parallel run on 4 ranks, the others on one; the files they leave are checked by its own ncvalidator.
"""

import shutil
import subprocess
from pathlib import Path

from implementations import Implementation
from sources import debian_source

import build
from model import Missing, Step, Suite, Test

NAME = "pnetcdf"
RANKS = 4
PARALLEL = ("testcases", "nonblocking", "header", "largefile")
SEQUENTIAL = ("F90", "nc_test")
READS_SUITES_FILES = {"test_inq_format": "", "tst_open_cdf5": "/bad_begin.nc5", "tst_corrupt": ""}
BURST = (("PNETCDF_HINTS", "nc_burst_buf=enable;nc_burst_buf_dirname=.;nc_burst_buf_overwrite=enable"),)

# Programs whose command line or whose files are not the usual `PROGRAM PROGRAM.nc`; listed below one by one.
SPECIAL = {
    "tst_io",
    "nc_test",
    "tst_nofill",
    "redef1",
    "tst_version",
    "put_all_kinds",
    "iput_all_kinds",
    "tst_pthread",
    "mcoll_perf",
}
# What a program opens as a file that is no NetCDF file, by its name in the directory where it runs.
NO_NETCDF_FILE = {"nf_test": "nf_test", "nf90_test": "test_get.F90"}
LONG_SECONDS = {"largefile": 600.0, "nc_test": 300.0, "nf_test": 300.0, "nf90_test": 300.0}
MEMORY_GIB = {"largefile/large_coalesce": 6.0, "largefile/large_var": 4.0}
DISK_GIB = {"largefile": 14.0, "testcases/last_large_var": 5.0}


def _make_variable(directory: Path, name: str, environment: dict[str, str]) -> list[str]:
    """The value that a makefile gives a variable, conditions and all."""
    done = subprocess.run(
        ["make", "-s", "--no-print-directory", "-C", str(directory), f"--eval=print-it: ; @echo $({name})", "print-it"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise Missing(f"{NAME}: make cannot read {directory}/Makefile: {done.stderr.strip()[-200:]}")
    return done.stdout.split()


def _build(on: Implementation, tree: Path, root: Path) -> None:
    log, environment = root / "build.log", on.base_environment()
    if (root / "complete").exists():
        return
    if not (tree / "configure").exists():
        for tool in ("autoreconf", "automake", "libtoolize", "m4"):
            if not shutil.which(tool):
                raise Missing(f"{NAME}: {tool} is not installed; apt-get install autoconf automake libtool m4")
        build.run(["autoreconf", "-i"], tree, log, NAME, environment)
    if not (root / "Makefile").exists():
        flags = [
            f"{kind}=-O1 -w{' -fallow-argument-mismatch' if kind[0] == 'F' else ''}"
            for kind in ("CFLAGS", "FFLAGS", "FCFLAGS")
        ]
        fortran = [f"MPIF77={on.fc}", f"MPIF90={on.fc}"] if on.fc else ["--disable-fortran"]
        features = [
            "--enable-burst-buffering",
            "--enable-subfiling",
            "--enable-thread-safe",
            "--enable-large-file-test",
            "--disable-cxx",
        ]
        build.run(
            [str(tree / "configure"), f"MPICC={on.cc}", *fortran, *flags, *features], root, log, NAME, environment
        )
    for target in ("all", "tests"):
        build.run(["make", f"-j{build.JOBS}", target], root, log, NAME, environment)
    (root / "complete").touch()


class _Tests:
    """Collects the tests of one build."""

    def __init__(self, on: Implementation, tree: Path, root: Path) -> None:
        self.environment, self.fortran = on.base_environment(), bool(on.fc)
        self.sources, self.built = tree / "test", root / "test"
        self.utilities = root / "src" / "utils"
        self.made: list[Test] = []

    def program(self, directory: str, name: str) -> str:
        """The program itself, not libtool's script around it (with static libraries they are the same)."""
        return str(self.built / directory / name)

    def valid(self, *files: str) -> list[Step]:
        return [Step(str(self.utilities / "ncvalidator" / "ncvalidator"), ("-q", file), 0) for file in files]

    def same(self, first: str, second: str) -> Step:
        return Step(str(self.utilities / "ncmpidiff" / "ncmpidiff"), ("-q", first, second), 1)

    def add(self, directory: str, name: str, *steps: Step, copies: tuple[str, ...] = ()) -> None:
        identity = f"{directory}/{name}"
        self.made.append(
            Test(
                NAME,
                identity,
                steps,
                LONG_SECONDS.get(directory, 180.0),
                MEMORY_GIB.get(identity, 0.0),
                DISK_GIB.get(identity, DISK_GIB.get(directory, 0.0)),
                copies,
            )
        )

    def usual(
        self, directory: str, ranks: int, names: list[str], environment: tuple[tuple[str, str], ...] = ()
    ) -> None:
        for name in names:
            if name not in SPECIAL:
                file = f"{name}.nc"
                self.add(
                    directory,
                    name,
                    Step(self.program(directory, name), (file,), ranks, "exit", environment),
                    *self.valid(file),
                )

    def programs(self, directory: str, variable: str = "check_PROGRAMS") -> list[str]:
        return _make_variable(self.built / directory, variable, self.environment)

    def collect(self) -> list[Test]:
        for directory in PARALLEL:
            self.usual(directory, RANKS, self.programs(directory))
        for directory in SEQUENTIAL if self.fortran else ("nc_test",):
            self.usual(directory, 1, self.programs(directory, "TESTPROGRAMS"))
        if self.fortran:
            self.usual("F90", RANKS, self.programs("F90", "PARALLEL_PROGS"))
            self.add("F90", "tst_io", Step(self.program("F90", "tst_io"), (".",), 1), *self.valid("tst_io1.nc"))
        self.usual("burst_buffer", RANKS, self.programs("burst_buffer"), BURST)
        self.special()
        return self.made

    def special(self) -> None:
        def step(directory: str, name: str, *arguments: str, ranks: int = RANKS) -> Step:
            return Step(self.program(directory, name), arguments, ranks)

        self.add(
            "C",
            "pres_temp_4D",
            step("C", "pres_temp_4D_wr", "a.nc"),
            step("C", "pres_temp_4D_rd", "a.nc"),
            *self.valid("a.nc"),
        )
        for name, file in READS_SUITES_FILES.items():
            self.add("cdf_format", name, step("cdf_format", name, f"{self.sources}/cdf_format{file}", ranks=1))
        for name in ("cdf_type", "dim_cdf12"):
            self.add("cdf_format", name, step("cdf_format", name, "a.nc"), *self.valid("a.nc"))
        self.add(
            "subfile",
            "test_subfile",
            step("subfile", "test_subfile", "-f", "a.nc", "-s", "2"),
            *self.valid("a.nc", "a.nc.subfile_0.nc", "a.nc.subfile_1.nc"),
        )
        self.add("nonblocking", "mcoll_perf", step("nonblocking", "mcoll_perf", "a"))
        self.add("testcases", "tst_version", step("testcases", "tst_version"))
        for name in ("put_all_kinds", "iput_all_kinds"):
            self.add("testcases", name, step("testcases", name, "a.nc"), *self.valid("a.nc1", "a.nc2", "a.nc5"))
        if "tst_pthread" in self.programs("testcases"):
            self.add(
                "testcases",
                "tst_pthread",
                step("testcases", "tst_pthread", "a.nc"),
                *self.valid(*(f"a.nc.{k}" for k in range(6 * RANKS))),
            )
        generator = Step(
            str(self.utilities / "ncmpigen" / "ncmpigen"),
            ("-v", "5", "-o", "expected.nc", f"{self.sources}/testcases/redef-good.ncdump"),
            1,
        )
        self.add(
            "testcases",
            "redef1",
            generator,
            step("testcases", "redef1", "a.nc", ranks=1),
            self.same("a.nc", "expected.nc"),
            *self.valid("a.nc"),
        )
        self.add(
            "nc_test",
            "tst_nofill",
            step("nc_test", "tst_nofill", "a.nc", ranks=1),
            *self.valid("a.nc.fill", "a.nc.nofill"),
        )
        for directory in ("nc_test", "nf_test", "nf90_test") if self.fortran else ("nc_test",):
            for version in ("1", "2", "5"):
                chosen = () if version == "1" else (f"-{version}",)
                self.add(
                    directory,
                    f"{directory}-cdf{version}",
                    step(directory, directory, *chosen, "-d", ".", ranks=1),
                    *self.valid("test.nc"),
                    copies=(self.program(directory, NO_NETCDF_FILE[directory]),) if directory in NO_NETCDF_FILE else (),
                )


def prepare(on: Implementation, cache: Path) -> Suite:
    if not on.cc:
        raise Missing(f"{NAME} on {on.name}: it brings no compiler wrapper")
    source = debian_source("pnetcdf", cache)
    root = cache / "build" / on.key / f"{NAME}-{source.version}"
    root.mkdir(parents=True, exist_ok=True)
    _build(on, source.tree, root)
    tests = _Tests(on, source.tree, root).collect()
    missing = {
        f"{test.name}": f"{step.program} is not there"
        for test in tests
        for step in test.steps
        if not Path(step.program).exists()
    }
    return Suite(NAME, [test for test in tests if test.name not in missing], [source.as_dict()], missing)
