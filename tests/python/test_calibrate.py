"""penstock calibrate: the regression on known and spoilt points, figures from made-up lines, what is started, and one short real run."""

import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import calibrate_man
import pytest
from penstock import calibration, machine, model, paths, profiles
from penstock.commands import calibrate
from penstock.failure import Failure

TOP = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, str(TOP / "python/penstock/__main__.py"), "calibrate"]
SIZES = [8 << step for step in range(20)]

# Regression


def line(startup, per_byte, sizes=SIZES):
    return [(size, startup + per_byte * size) for size in sizes]


@pytest.mark.parametrize(("startup", "per_byte"), [(1e-6, 1e-10), (5.39e-3, 3.2e-8), (2e-7, 5e-12), (1e-3, 1e-6)])
def test_a_line_without_noise_is_found_exactly(startup, per_byte):
    found = calibration.fit(line(startup, per_byte))
    assert found.startup == pytest.approx(startup, rel=1e-6) and found.per_byte == pytest.approx(per_byte, rel=1e-6)
    assert found.r2 == pytest.approx(1.0) and max(map(abs, found.residuals_percent())) < 1e-4
    ends = calibration.fit_ends(line(startup, per_byte))
    assert ends.startup == pytest.approx(startup + 48 * per_byte, rel=1e-3) and ends.per_byte == pytest.approx(
        per_byte, rel=1e-6
    )


def test_outliers_do_not_move_the_line():
    for places in ([0], [19], [3, 10, 17]):
        points = line(2e-6, 1e-10)
        for place in places:
            points[place] = (points[place][0], 20 * points[place][1])
        found = calibration.fit(points)
        assert found.startup == pytest.approx(2e-6, rel=0.02) and found.per_byte == pytest.approx(1e-10, rel=0.02)
        residuals = found.residuals_percent()
        assert all(residuals[place] == pytest.approx(1900, rel=0.05) for place in places) and found.r2 < 0.999


def test_noise_of_a_tenth_leaves_the_coefficients_within_it():
    generator = random.Random(1)
    points = [(size, seconds * generator.uniform(0.9, 1.1)) for size, seconds in line(1e-6, 1e-10)]
    found = calibration.fit(points)
    assert found.startup == pytest.approx(1e-6, rel=0.1) and found.per_byte == pytest.approx(1e-10, rel=0.1)
    assert 0.98 < found.r2 < 1


def test_small_sizes_count_as_much_as_large_ones():
    """Least squares of the seconds themselves would sacrifice microseconds at 8 bytes for a per cent at 4 MiB."""
    points = line(1e-6, 1e-9)
    points[-1] = (points[-1][0], 1.3 * points[-1][1])
    assert calibration.fit(points).startup == pytest.approx(1e-6, rel=0.02)


def test_no_coefficient_is_negative():
    falling = calibration.fit([(size, 1e-3 / (1 + size)) for size in SIZES])
    assert falling.per_byte == 0.0 and falling.startup > 0
    through_nothing = calibration.fit([(size, 1e-9 * size - 2e-9) for size in SIZES])
    assert through_nothing.startup == 0.0 and through_nothing.per_byte == pytest.approx(1e-9, rel=0.1)


def test_too_few_points_are_no_line():
    assert calibration.fit([]) is None and calibration.fit([(8, 1e-6)]) is None
    assert calibration.fit([(8, 1e-6), (8, 2e-6)]) is None and calibration.fit([(8, 1e-6), (16, 0.0)]) is None
    assert calibration.fit_ends([(8, 1e-6), (16, 2e-6)]) == calibration.fit([(8, 1e-6), (16, 2e-6)])
    assert calibration.extra([], 1e-9) is None


def test_ends_are_right_where_the_middle_is_not():
    """A change of protocol at 8 KiB, and a link whose buffer hides the first 256 KiB."""
    points = []
    for size in SIZES:
        seconds = 2e-6 + size * 1e-10
        if size >= 8192:
            seconds += 1e-5
        if size > 262144:
            seconds += (size - 262144) * 8e-9
        points.append((size, seconds))
    found = calibration.fit_ends(points)
    assert found.startup == pytest.approx(2e-6, rel=0.25)
    assert found.at(4 << 20) == pytest.approx(points[-1][1], rel=0.35)
    assert abs(found.at(4 << 20) - points[-1][1]) < abs(calibration.fit(points).at(4 << 20) - points[-1][1])


def test_what_a_request_takes_besides_its_bytes():
    points = line(8e-3, 8e-9, [4096, 65536, 1 << 20, 4 << 20])
    assert calibration.extra(points, 8e-9) == pytest.approx(8e-3)
    assert calibration.extra(points[:1] + [(1 << 16, 1.0)] + points[2:], 8e-9) == pytest.approx(8e-3, rel=0.3)
    assert calibration.extra(points, 1.0) == 0.0


def test_one_large_message_may_be_anywhere():
    points = line(2e-6, 1e-10)
    points[-1] = (points[-1][0], 30 * points[-1][1])
    assert calibration.fit_ends(points).per_byte == pytest.approx(1e-10, rel=0.05)


# Figures from lines


def lines_of_program() -> list[dict]:
    """A disk of 100 MB/s and 5 ms behind a page cache of 5 GB/s; two ranks on each of two nodes."""
    lines = [{"kind": "facts", "host": "node007", "ranks": 4, "nodes": 2, "node_ranks": 2, "processors": 2, "mpi": "M"}]
    for between, startup, per_byte in ((False, 1e-6, 1e-10), (True, 3e-5, 8e-9)):
        lines += [
            {"kind": "ping_pong", "between": between, "size_bytes": size, "seconds": seconds}
            for size, seconds in line(startup, per_byte)
        ]
        lines.append({"kind": "agreement", "between": between, "ranks": 5, "seconds": 3 * startup})
    for write in (False, True):
        lines.append(access(write, True, False, 8, 1, 5e-7))
        for random_order in (False, True):
            for size in (4096, 65536, 1 << 20):
                call = 5e-3 if random_order else 1e-4
                lines.append(access(write, True, random_order, size, 1, 5e-7 + size * 2e-10))
                lines.append(access(write, False, random_order, size, 1, call + size * 1e-8))
                lines.append(access(write, True, random_order, size, 2, 5e-7 + size * 2e-10, 1.8))
                times = {4096: 3.2, 65536: 2.4, 1 << 20: 1.1}[size]
                times = times if random_order else 0.3  # those that read in order lose that by one another
                lines.append(access(write, False, random_order, size, 4, 4 * (call + size * 1e-8), times))
    lines += [
        {"kind": "new_pages", "size_bytes": 1 << 20, "seconds_new": 6e-4, "seconds_again": 2e-4},
        {"kind": "sync", "seconds": 2e-2},
        {"kind": "open", "seconds": 3e-6},
        {"kind": "file", "bytes": 1 << 28, "direct": True},
        {"kind": "copy", "far_seconds_per_byte": 1e-10, "near_seconds_per_byte": 2e-11, "piece_seconds": 3e-9, "piece_bytes": 8},
        {"kind": "faults", "read_seconds": 6e-8, "write_seconds": 1e-7, "new_seconds": 1e-6, "map_seconds": 5e-6},
    ]  # fmt: skip
    return lines


def access(write, cached, random_order, size, ranks, seconds, times=1.0):
    alone = seconds / (4 if ranks == 4 else 1)
    return {
        "kind": "access", "write": write, "cached": cached, "random": random_order, "size_bytes": size, "ranks": ranks, "seconds": seconds,
        "bytes_per_second": times * size / alone,
    }  # fmt: skip


def test_every_figure_of_the_table_comes_from_the_lines():
    found = calibration.figures_of(lines_of_program(), in_memory=False).figures
    assert set(found) == {one.key for one in profiles.fields()}
    expected = {
        "network.inside.startup": 1e-6 + 48e-10, "network.between.per_byte": 8e-9, "network.between.step": 3e-5, "storage.read.cached_call": 5e-7,
        "storage.read.cached_per_byte": 2e-10, "storage.write.cached_ranks": 1.8, "storage.write.device_call": 1e-4,
        "storage.write.device_random_call": 5e-3, "storage.read.device_per_byte": 1e-8, "storage.read.device_ranks": 3.2, "storage.read.device_streams": 1.1, "file.cached": 1.0,
        "file.new_page": 4e-4 / 256, "file.sync": 2e-2, "file.open": 3e-6, "memory.piece": 3e-9 - 16e-11, "memory.fault_new": 1e-6,
        "memory.copy_near_per_byte": 2e-11,
    }  # fmt: skip
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-6)
    assert calibration.based_on(found, False, False) == "hdd"


def test_what_was_not_measured_has_no_figure():
    alone = [one for one in lines_of_program() if one["kind"] not in ("ping_pong", "agreement", "faults")]
    found = calibration.figures_of(alone, in_memory=False).figures
    assert not [key for key in found if key.startswith(("network.", "memory.fault"))]
    assert calibration.figures_of([], in_memory=False).figures == {}


def test_whether_programs_see_the_page_cache():
    lines = lines_of_program()
    assert calibration.figures_of(lines, True).figures["file.cached"] == 1.0
    for one in lines:
        if one["kind"] == "access" and one["cached"]:
            one["seconds"] = 1e-3 + one["size_bytes"] * 9e-9
    assert calibration.figures_of(lines, in_memory=False).figures["file.cached"] == 0.0
    assert calibration.figures_of(lines, in_memory=True).figures["file.cached"] == 1.0


@pytest.mark.parametrize(
    ("call", "in_memory", "shared", "name"),
    [(8e-3, False, False, "hdd"), (1e-4, False, False, "ssd"), (1e-5, False, False, "nvm"), (1e-3, False, True, "lustre"), (1e-3, True, False, "tmpfs")],
)  # fmt: skip
def test_the_built_in_profile_beneath(call, in_memory, shared, name):
    assert calibration.based_on({"storage.read.device_random_call": call}, in_memory, shared) == name


def test_only_lines_of_measurements_are_read():
    text = 'libfabric: hello\n{"kind": "sync", "seconds": 1}\n{"kind": broken\n{"kind": 3}\n{"other": 1}\n'
    assert calibration.parse(text) == [{"kind": "sync", "seconds": 1}]
    with pytest.raises(ValueError, match="not as expected"):
        calibration.figures_of([{"kind": "copy"}], in_memory=False)


# What is started


def test_where_the_launcher_is():
    assert calibrate.launcher_of(["mpiexec.mpich", "-n", "4"]) == 0
    assert calibrate.launcher_of(["penstock", "testbed", "run", "--native", "/opt/bin/mpirun", "-n", "4"]) == 4
    assert calibrate.launcher_of(["srun"]) == 0 and calibrate.launcher_of(["./app"]) is None


@pytest.mark.parametrize(
    ("words", "says"),
    [("mpiexec -n 4", True), ("srun --ntasks=4", True), ("mpirun -np 2", True), ("mpiexec -hosts a", False)],
)
def test_whether_a_line_says_how_many_ranks(words, says):
    assert calibrate.says_ranks(words.split()) == says


def test_the_compiler_of_the_launchers_mpi(tmp_path, monkeypatch):
    for name in ("mpiexec.mine", "mpicc.mine", "mpirun", "srun"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert calibrate.compiler_beside(tmp_path / "mpiexec.mine") == tmp_path / "mpicc.mine"
    assert calibrate.compiler_beside(tmp_path / "srun") is None
    (tmp_path / "mpicc").write_text("")
    (tmp_path / "mpicc").chmod(0o755)
    assert (
        calibrate.compiler_beside(tmp_path / "srun")
        == calibrate.compiler_beside(tmp_path / "mpirun")
        == tmp_path / "mpicc"
    )


def wanted(tmp_path, **changes):
    values = {
        "directory": tmp_path,
        "ranks": None,
        "name": "",
        "output": None,
        "line": (),
        "seconds": 1,
        "compiler": "",
    } | changes
    return calibrate.Wanted(**values)


@pytest.mark.parametrize(
    ("line", "ranks", "expected"),
    [
        (("./app",), None, "a line that starts ranks"),
        (("mpiexec-none",), None, "no such program"),
        (("mpiexec", "-n", "2"), 4, "given twice"),
    ],
)
def test_lines_that_can_not_be_started(tmp_path, monkeypatch, line, ranks, expected):
    (tmp_path / "mpiexec").write_text("#!/bin/sh\n")
    (tmp_path / "mpiexec").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Failure, match=expected):
        calibrate.line_for(wanted(tmp_path, line=line, ranks=ranks))


def test_a_compiler_that_fails_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    compiler = tmp_path / "mpicc"
    compiler.write_text("#!/bin/sh\necho 'no such flag' >&2\nexit 1\n")
    compiler.chmod(0o755)
    with pytest.raises(Failure, match="no such flag"):
        calibrate.compiled_program(compiler)
    with pytest.raises(Failure, match="--compiler none-such"):
        calibrate.program_for(tmp_path / "mpiexec", "none-such")


def test_names_of_profiles_follow_machine_and_file_system():
    place = machine.FileSystem("/", "ext4", "/dev/x", "1")
    assert calibrate.default_name("node012.site", place) == "node-ext4-root"
    odd = calibrate.default_name("n\u00f6 de/", machine.FileSystem("/mnt/a b/\u00e9", "fuse.x", "", ""))
    assert profiles.checked_name(odd) == odd


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(4.7e-7, "s", "470 ns"), (2e-3, "s", "2 ms"), (3.0, "s", "3 s"), (0.0, "s", "0 ns"), (1e-10, "s/B", "10 GB/s"), (0.0, "s/B", "-"), (1.0, "0 or 1", "1")],
)  # fmt: skip
def test_figures_for_people(value, unit, text):
    assert calibrate.human(value, unit) == text


# Whole runs of a stand-in for the program


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A launcher that prints the lines of a file instead of starting anything; its directory is the place that is measured."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    bin_directory, place = tmp_path / "bin", tmp_path / "place"
    bin_directory.mkdir()
    place.mkdir()
    (tmp_path / "lines").write_text("".join(json.dumps(one) + "\n" for one in lines_of_program()))

    def make(script=f"cat {tmp_path}/lines"):
        launcher = bin_directory / "mpiexec"
        launcher.write_text(f"#!/bin/sh\n{script}\n")
        launcher.chmod(0o755)
        monkeypatch.setattr(calibrate, "program_for", lambda _launcher, _compiler: Path("/programs/calibrate"))
        return wanted(place, line=(str(launcher), "-n", "4"))

    return make


def test_a_profile_is_written_and_found_again(stand_in, tmp_path, capsys):
    asked = stand_in()
    assert calibrate.run(asked, as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    profile = profiles.read(Path(told["profile"]))
    assert profile.own == {one.key for one in profiles.fields()} and profile.head["not_measured"] == []
    assert profile.head["machine"] == "node" and profile.head["line"].endswith("mpiexec -n 4")
    place = machine.file_system(asked.directory)
    assert profiles.find("node", place.mount_point, place.kind, place.identifier).name == profile.name
    assert list(asked.directory.iterdir()) == []
    assert calibrate.run(asked, as_json=False) == 0
    shown = capsys.readouterr().out
    assert "ping pong between: R2 1.000" in shown and "5 ms" in shown


@pytest.mark.skipif(not paths.program(model.PROGRAM).is_file(), reason="build/release has no penstock-model")
def test_the_model_reads_what_was_written(stand_in, capsys):
    assert calibrate.run(stand_in(), as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    (found,) = model.ask([{"operation": "profile", "profile_text": Path(told["profile"]).read_text()}])
    assert found["figures"] == pytest.approx(told["figures"]) and found["measured"]


def test_profiles_side_by_side_and_listed(stand_in, tmp_path, capsys):
    calibrate.run(dataclasses.replace(stand_in(), name="mine"), as_json=True)
    capsys.readouterr()
    assert calibrate.compare(["mine", "hdd"], as_json=False) == 0
    shown = capsys.readouterr().out
    assert "network.between.startup" in shown and "mine" in shown and "the built-in profile hdd" in shown
    assert calibrate.compare(["mine", "hdd"], as_json=True) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == ["mine", "hdd"]
    assert calibrate.listed(as_json=True) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["name"] == "mine" and row["path"].endswith("mine.toml")
    with pytest.raises(Failure, match="expected names"):
        calibrate.compare([], as_json=False)


def test_what_goes_wrong_leaves_nothing_behind(stand_in, tmp_path):
    for script, expected in (
        ("exit 3", "exit code 3"),
        ("true", "told no facts"),
        ('echo \'{"kind": "facts"}\'', "host"),
    ):
        asked = stand_in(script)
        with pytest.raises(Failure, match=expected):
            calibrate.run(asked, as_json=False)
        assert list(asked.directory.iterdir()) == [] and profiles.stored() == []
    with pytest.raises(Failure, match="--dir"):
        calibrate.run(wanted(tmp_path / "none"), as_json=False)
    with pytest.raises(Failure, match="profile name"):
        calibrate.run(wanted(tmp_path, name="../x"), as_json=False)


def test_what_can_not_be_kept_is_not_measured(stand_in, tmp_path, monkeypatch):
    asked = stand_in(f"touch {tmp_path}/measured; cat {tmp_path}/lines")
    (tmp_path / "file").write_text("")
    for output in (tmp_path, tmp_path / "file" / "x.toml"):
        with pytest.raises(Failure, match="can not be written: .*--output"):
            calibrate.run(dataclasses.replace(asked, output=output), as_json=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    with pytest.raises(Failure, match="can not be written: .*--output"):
        calibrate.run(asked, as_json=True)
    assert not (tmp_path / "measured").exists()
    with pytest.raises(Failure, match="can not be written: .*--output"):
        profiles.write(tmp_path / "file" / "x.toml", "[profile]\nversion = 1\n")


def test_a_user_whom_the_system_does_not_know_has_a_home(monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(paths.Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert profiles.directory({}) == Path("/.config/penstock/profiles")
    assert calibrate.cache_directory({}) == Path("/.cache/penstock")


# Its manual


def test_the_manual_names_every_figure(tmp_path):
    output = tmp_path / "man" / "penstock-calibrate.1"
    assert calibrate_man.main([str(TOP / "table/profile.toml"), str(output), "9.8.7"]) == 0
    text = output.read_text()
    assert '"Penstock 9.8.7"' in text
    for one in profiles.fields():
        assert f".B {calibrate_man.roff(one.name)}\n{calibrate_man.roff(one.text)}" in text
    assert all(f".B {name}\n" in text for name in profiles.built_in_names())
    assert calibrate_man.main([]) == 2


# The real thing

mpich = pytest.mark.skipif(
    not (TOP / "build/release/kernels/mpich/calibrate").is_file() or shutil.which("mpiexec.mpich") is None,
    reason="build/release has no calibration program for MPICH",
)


@mpich
def test_a_short_calibration(tmp_path):
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path / "config"), "LD_PRELOAD": ""}
    place = tmp_path / "place"
    place.mkdir()
    words = [*COMMAND, "--dir", place, "--seconds", "1", "--name", "short", "--json", "--", "mpiexec.mpich", "-n", "2"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    profile = profiles.read(Path(told["profile"]))
    missing = [key for key in profile.figures if key not in profile.own]
    assert sorted(missing) == [f"network.between.{name}" for name in ("per_byte", "startup", "step")]
    assert all(0 <= value < 10 for key, value in profile.figures.items() if not key.endswith("_ranks"))
    assert "calibrate: messages inside the node" in done.stderr and list(place.iterdir()) == []


@mpich
def test_an_interrupted_calibration_leaves_nothing(tmp_path):
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    place = tmp_path / "place"
    place.mkdir()
    words = [*COMMAND, "--dir", place, "--", "mpiexec.mpich", "-n", "2"]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not list(place.glob(".penstock-calibrate-*/data")) and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1 and "no profile was written" in said
    assert list(place.iterdir()) == [] and not (tmp_path / "config/penstock").exists()


@pytest.mark.skipif(shutil.which("mpicc.mpich") is None, reason="mpicc.mpich is missing")
def test_the_program_is_built_once_for_an_mpi_that_has_none(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = calibrate.program_for(Path("/usr/bin/mpiexec"), "mpicc.mpich")
    assert program.is_file() and program.is_relative_to(tmp_path)
    assert "building the calibration program" in capfd.readouterr().err
    assert calibrate.program_for(Path("/usr/bin/mpiexec"), "mpicc.mpich") == program
    assert capfd.readouterr().err == ""
