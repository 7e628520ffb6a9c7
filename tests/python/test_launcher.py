"""penstock.launcher: which program does a line start?"""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from penstock import launcher

HERE = Path("/job")
EXECUTABLES = {
    "mpiexec", "mpirun", "mpiexec.hydra", "srun", "aprun", "jsrun", "flux", "env", "numactl", "time", "taskset", "nice", "timeout",
    "bash", "python", "python3", "./app", "./other", "/opt/bin/app", "test", "perf", "stat", "apptainer", "sub/app",
}  # fmt: skip


def find(word: str, directory: Path) -> Path | None:
    name = word
    if directory != HERE and "/" in word and not word.startswith("/"):
        name = str((directory / word).relative_to(HERE))
    return HERE / name if name in EXECUTABLES else None


def parse(text: str) -> launcher.Line:
    return launcher.parse(text.split(), HERE, find)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("./app", "./app"),
        ("./app -n 8 ./other", "./app"),
        ("python script.py --n 4", "python"),
        ("mpiexec -n 8 ./app -x test", "./app"),
        ("mpiexec.hydra -np 4 -genv A test -env B time ./app", "./app"),
        ("mpirun -x test --mca btl self,tcp --map-by core -n 2 ./app", "./app"),
        ("mpirun --oversubscribe --bind-to none ./app", "./app"),
        ("mpiexec --np=4 --host n0:4,n1:4 ./app", "./app"),
        ("srun -p test -n8 -N 2 --cpu-bind=cores ./app", "./app"),
        ("srun --partition test --exclusive ./app", "./app"),
        ("aprun -n 4 -cc cpu ./app", "./app"),
        ("jsrun -n 4 -a 1 ./app", "./app"),
        ("flux run -n 4 ./app", "./app"),
        ("mpiexec -n 2 env -i A=test ./app", "./app"),
        ("mpiexec -n 2 env -u test -C sub A=b ./app", "./app"),
        ("mpiexec -n 2 numactl -C 0 --membind 0 ./app", "./app"),
        ("time -p mpiexec -n 2 ./app", "mpiexec"),
        ("mpiexec -n 2 time taskset 0x1 nice -n 5 timeout 60 ./app", "./app"),
        ("mpiexec -n 2 perf stat ./app", "./app"),
        ("mpiexec -n 2 bash -c ./app", "bash"),
        ("mpiexec -wdir sub -n 2 ./app", "./app"),
    ],
)
def test_program(line, word):
    found = parse(line)
    assert found.programs[0].word == word and found.programs[0].path is not None


def test_several_programs():
    line = parse("mpiexec -n 2 ./app a : -n 3 time ./other : -n 1 /opt/bin/app")
    assert [program.word for program in line.programs] == ["./app", "./other", "/opt/bin/app"]
    assert line.programs[1].wrappers == ["time"]
    assert [line.words[start - 1] for start in line.part_starts] == ["mpiexec", ":", ":"]


def test_a_colon_of_the_program_without_launcher_is_an_argument():
    assert len(parse("./app : ./other").programs) == 1


def test_unknown_program_stays_unknown():
    line = parse("mpiexec -n 2 ./not-there argument")
    assert line.programs[0].path is None


def test_container_and_cleared_environment():
    assert parse("mpiexec -n 2 apptainer exec image ./app").programs[0].in_container
    assert parse("mpiexec -n 2 env -i ./app").programs[0].environment_cleared
    assert not parse("mpiexec -n 2 env A=-i ./app").programs[0].environment_cleared


WORDS = some.one_of(
    some.sampled_from(
        [*sorted(EXECUTABLES), "-n", "-x", "--", "-", ":", "-genv", "-wdir", "--mca", "", "-i", "A=b", "=", "\0"]
    ),
    some.text(max_size=6),
)


@settings(max_examples=500, deadline=None)
@given(some.lists(WORDS, max_size=12))
def test_any_words_are_taken_apart_without_loss(words):
    line = launcher.parse(words, HERE, find)
    assert line.words == words
    if words:
        assert line.programs
    for program in line.programs:
        if program.path is not None:
            assert program.word in words
            assert program.path.as_posix().endswith(program.word.removeprefix("."))
    for start in line.part_starts:
        assert 1 <= start <= len(words)


OPTION = some.sampled_from(
    [
        ["-n", "8"],
        ["-np", "test"],
        ["--map-by", "core"],
        ["-x", "time"],
        ["-genv", "bash", "test"],
        ["--mca", "a", "env"],
        ["-l"],
    ]
)


@settings(max_examples=300, deadline=None)
@given(
    some.lists(OPTION, max_size=6),
    some.lists(some.sampled_from(["time", "nice", "numactl"]), max_size=3),
    some.lists(some.text()),
)
def test_values_of_known_options_are_never_the_program(options, wrappers, arguments):
    words = ["mpiexec", *(word for option in options for word in option), *wrappers, "./app"]
    line = launcher.parse([*words, *(word for word in arguments if word != ":")], HERE, find)
    assert line.programs[0].word == "./app"
    assert line.programs[0].wrappers == wrappers


def test_real_look_up(tmp_path):
    script = tmp_path / "run me"
    script.write_text("#!/bin/sh\n")
    assert launcher.find_executable("./run me", tmp_path) is None
    script.chmod(0o755)
    assert launcher.find_executable("./run me", tmp_path) == tmp_path / "run me"
    assert launcher.find_executable("run me", tmp_path) == tmp_path / "run me"
    assert launcher.find_executable("sh", tmp_path).name == "sh"
    assert launcher.find_executable("", tmp_path) is None
    assert launcher.find_executable("x" * 5000, tmp_path) is None
