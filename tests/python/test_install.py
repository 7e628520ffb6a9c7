"""An installation works for who has nothing but it: commands, manual pages, pkg-config, find_package, the library with its flavours."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / "build/release"
PROGRAM = """#include <mpi.h>
#ifdef WITH_HEADER
#include <penstock/penstock.h>
#else
#define PENSTOCK_HINT_STORE "penstock_store"
#endif
#include <stdio.h>
int main(int argc, char** argv) {
  MPI_File file;
  MPI_Info info;
  char value[64] = "nothing";
  int found = 0;
  MPI_Init(&argc, &argv);
  MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
  MPI_File_get_info(file, &info);
  MPI_Info_get(info, PENSTOCK_HINT_STORE, 63, value, &found);
  printf("%s\\n", value);
  MPI_Info_free(&info);
  MPI_File_close(&file);
  MPI_Finalize();
}
"""
CMAKE = """cmake_minimum_required(VERSION 3.22)
project(user C)
find_package(penstock REQUIRED)
add_executable(program program.c)
target_compile_definitions(program PRIVATE WITH_HEADER)
target_link_libraries(program PRIVATE penstock::penstock)
"""

pytestmark = [
    pytest.mark.skipif(not (BUILD / "lib/libpenstock-mpich.so").is_file(), reason="build/release has no MPICH flavour"),
    pytest.mark.skipif(not (BUILD / "man/penstock-hints.7").is_file(), reason="build/release is not built whole"),
    pytest.mark.skipif(shutil.which("mpicc.mpich") is None, reason="mpicc.mpich is missing"),
]


def call(words: list, **more) -> str:
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=120, check=False, **more
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Moved after it was installed: nothing in it may depend on where it was put first."""
    first = tmp_path_factory.mktemp("installed") / "first"
    call(["cmake", "--install", BUILD, "--prefix", first])
    return first.rename(first.parent / "moved")


@pytest.fixture
def outside():
    """As a user has it: no variables of ours, and a Python with the modules first in PATH."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "PYTHON", "LD_"))}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def test_info_knows_the_installed_libraries_and_no_others(prefix, outside, tmp_path):
    text = call([prefix / "bin/penstock", "info"], env=outside, cwd=tmp_path)
    assert str(prefix / "lib/libpenstock.so") in text and str(prefix / "lib/libpenstock-mpich.so") in text
    # The interpreter may be the checkout's: it is that of whoever runs the tests.
    assert not [line for line in text.splitlines() if str(TOP) in line and "python" not in line]


def test_a_program_runs_on_the_installed_library(prefix, outside, tmp_path):
    (tmp_path / "program.c").write_text(PROGRAM)
    call(["mpicc.mpich", "program.c", "-o", "program"], cwd=tmp_path)
    for starter in ([prefix / "bin/penstock", "run"], [prefix / "bin/penstock-exec"]):
        assert "posix" in call([*starter, tmp_path / "program", tmp_path / "out"], env=outside, cwd=tmp_path)


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="pkg-config is missing")
def test_pkg_config_links_a_program_that_finds_the_library(prefix, outside, tmp_path):
    outside["PKG_CONFIG_PATH"] = str(prefix / "lib/pkgconfig")
    options = call(["pkg-config", "--cflags", "--libs", "penstock"], env=outside).split()
    (tmp_path / "program.c").write_text(PROGRAM)
    call(["mpicc.mpich", "-DWITH_HEADER", "program.c", "-o", "program", *options], cwd=tmp_path)
    assert call([tmp_path / "program", tmp_path / "out"], env=outside).strip() == "posix"


def test_find_package_links_a_program_that_finds_the_library(prefix, outside, tmp_path):
    (tmp_path / "program.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    outside["CC"] = shutil.which("mpicc.mpich")
    call(["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"], env=outside)
    call(["cmake", "--build", tmp_path / "build"], env=outside)
    assert call([tmp_path / "build/program", tmp_path / "out"], env=outside).strip() == "posix"


def test_the_header_is_plain_c_and_agrees_with_the_hints_there_are(prefix, outside, tmp_path):
    header = (prefix / "include/penstock/penstock.h").read_text()
    assert '#define PENSTOCK_HINT_STRATEGY_TWO_LAYER "two_layer"' in header
    (tmp_path / "all.c").write_text(
        "#include <penstock/penstock.h>\nconst char* version = PENSTOCK_VERSION PENSTOCK_HINT_PROFILE;\n"
    )
    call(["cc", "-std=c90", "-pedantic-errors", "-Wall", "-Werror", f"-I{prefix}/include", "-c", "all.c"], cwd=tmp_path)


def test_the_model_answers_and_a_calibration_runs(prefix, outside, tmp_path):
    outside |= {"XDG_CONFIG_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    assert "Table VI" in call([prefix / "bin/penstock", "study", "model", "--output", tmp_path / "model"], env=outside)
    words = ["calibrate", "--dir", tmp_path, "--seconds", "1", "--", "mpiexec.mpich", "-n", "1"]
    said = call([prefix / "bin/penstock", *words], env=outside)
    assert "building the calibration program" in said and "written to" in said


def test_manual_pages_and_the_archive_are_there(prefix):
    for page in (
        "man1/penstock.1",
        "man1/penstock-run.1",
        "man1/penstock-exec.1",
        "man1/penstock-testbed.1",
        "man1/penstock-study.1",
        "man1/penstock-explain.1",
        "man1/penstock-calibrate.1",
        "man7/penstock-hints.7",
    ):
        assert (prefix / "share/man" / page).read_text().startswith((".TH", ".so", '.\\"'))
    assert (prefix / "lib/libpenstock-mpich.a").is_file() and (prefix / "lib/penstock-mpich.options").is_file()
