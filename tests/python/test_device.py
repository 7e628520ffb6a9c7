"""penstock testbed device: what would be made and measured, what is refused; and where they can be had, real devices that leave nothing behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TOP
from penstock.failure import USAGE, Failure
from penstock.testbed import bed, devices, groups, making, measuring, processes
from penstock.testbed.devices import Device, Machine, Target, Wanted

ALL = Machine("", "", True)
LIBRARIES = {"PENSTOCK_LIBDIR": str(TOP / "build/release/lib")}


def wanted(profile="hdd", **changes) -> Wanted:
    return Wanted("some", profile, **changes)


def device(profile="hdd", **changes) -> Device:
    return devices.checked(wanted(profile, **changes), ALL)


# --- what a device is ------------------------------------------------------------------------------------------------------


def test_profiles_are_the_table():
    found = devices.profiles()
    assert list(found) == ["hdd", "ssd", "nvm"]
    assert found["hdd"].megabytes_per_second == 120 and found["hdd"].requests_per_second == 150
    assert found["ssd"].random_latency_us == 80 and found["nvm"].at_least


@pytest.mark.parametrize(
    ("text", "size"),
    [("2G", 2 << 30), ("512m", 512 << 20), ("64MiB", 64 << 20), ("20000000", 20_000_000), ("1 gb", 1 << 30)],
)
def test_sizes(text, size):
    assert devices.size_of("--size", text) == size


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"profile": "tape"}, "hdd, ssd, nvm"),
        ({"size": "big"}, "--size 'big'"),
        ({"size": "0"}, "--size"),
        ({"size": "-1G"}, "--size"),
        ({"size": "9999999T"}, "--size"),
        ({"size": "1M"}, "at least 16M"),
        ({"rate": 0.0}, "--rate 0"),
        ({"rate": float("nan")}, "--rate nan"),
        ({"iops": 1e12}, "--iops"),
        ({"latency": -1.0}, "--latency -1"),
        ({"page_cache": "x"}, "--page-cache"),
        ({"page_cache": "1"}, "--page-cache 1: expected at least 4M"),
        ({"method": "usb"}, "auto, loop, fuse, memory"),
        ({"profile": "nvm", "method": "memory", "rate": 5.0}, "can not be made slower"),
    ],
)
def test_what_can_not_be_meant(changes, expected):
    with pytest.raises(Failure, match=expected) as caught:
        devices.checked(wanted(**changes), ALL)
    assert caught.value.exit_code == USAGE


def test_names_can_not_lead_out_of_the_state_directory():
    for name in ("", "../x", "a/b", "A", "a.b", "x" * 32):
        with pytest.raises(Failure, match="--name"):
            devices.checked(Wanted(name, "hdd"), ALL)


def test_method_follows_from_what_has_to_be_true():
    assert device("hdd").method == "fuse", "each request has its own latency"
    assert device("hdd", method="loop").method == "loop"
    assert device("ssd").method == "loop"
    assert device("ssd", latency=500).method == "fuse", "a control group sets none"
    assert device("nvm").method == "memory"
    assert device("nvm", page_cache="1G").method == "loop", "what lies in memory has no page cache in front"
    assert devices.checked(wanted("ssd"), replace(ALL, no_loop="no")).method == "fuse"


@pytest.mark.parametrize(
    ("changes", "machine", "expected"),
    [
        ({}, Machine("", "no libfuse", True), "no libfuse.*--method loop holds it to its averages"),
        ({"profile": "ssd"}, Machine("needs root", "no libfuse", False), "needs root; fuse: no libfuse"),
        ({"profile": "ssd", "method": "loop"}, Machine("needs root", "", False), "--method loop: needs root"),
        ({"method": "loop", "latency": 5.0}, ALL, "can not set the latency"),
        ({"method": "memory"}, ALL, "as fast as memory"),
        ({"profile": "nvm", "at": Path("/x")}, Machine("-", "-", False), "--at needs root"),
        ({"page_cache": "1G"}, Machine("-", "", False), "--page-cache needs root"),
    ],
)
def test_what_can_not_be_had_says_why(changes, machine, expected):
    with pytest.raises(Failure, match=expected):
        devices.checked(wanted(**changes), machine)


def test_a_device_is_remembered_as_it_is():
    made = device("ssd", page_cache="64M", at=Path("/srv/some"))
    assert devices.device_of(json.loads(json.dumps(made.as_json()))) == made
    assert made.directory == "/srv/some" and made.page_cache_bytes == 64 << 20


def test_a_directory_that_can_not_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    made = replace(device("nvm", at=tmp_path / "file" / "at"), state=str(tmp_path / "state"))
    with pytest.raises(Failure, match="--at .*/file/at: the directory can not be made: Not a directory"):
        making._make(made)


def test_a_probe_that_is_ended_keeps_no_file_open(tmp_path, monkeypatch):
    """A signal between opening and what closes again: the open file kept the probe from being unmounted."""
    opened, plain = [], os.open

    def ended(*words):
        opened.append(plain(*words))
        signal.raise_signal(signal.SIGTERM)  # SIGINT is ignored in the background of a shell
        return opened[-1]

    def mounted(_device, _profile, source, at, _path_us):
        shutil.copy(Path(source) / "file", at)

    monkeypatch.setattr(making, "_start_fuse", mounted)
    monkeypatch.setattr(making.os, "open", ended)
    with pytest.raises(bed.Ended), bed.signals_as_exceptions():
        making._path_us(replace(device("ssd", method="fuse"), state=str(tmp_path)))
    with pytest.raises(OSError):
        os.fstat(opened[0])


def test_words_of_the_file_system():
    words = devices.fuse_words(Path("/lib/fuse-device"), devices.profiles()["hdd"], "/a", "/b", False, True, 30.0)
    assert words[:5] == ["/lib/fuse-device", "--source", "/a", "--at", "/b"]
    values = dict(zip(words[5::2], words[6::2], strict=False))
    assert values["--bytes-per-second"] == "120000000" and values["--requests-per-second"] == "150"
    assert values["--random-latency-us"] == "7970", "less what the way takes"
    assert "--serial" in words and "--for-all" in words and "--page-cache" not in words
    free = devices.fuse_words(Path("x"), devices.profiles()["nvm"], "/a", "/b", True, False, 30.0)
    assert free[free.index("--bytes-per-second") + 1] == "0" and free[free.index("--random-latency-us") + 1] == "0"


# --- what is measured ------------------------------------------------------------------------------------------------------


def test_targets():
    rows = {row.what: row for row in devices.targets(device("hdd"), 1)}
    assert rows["sequential write"].target == 120 and "--ioengine=psync" in rows["sequential write"].fio
    assert rows["random reads, 4 at a time"].target == 150 and rows["random read, one at a time"].target == 8000
    slow = {row.what: row.target for row in devices.targets(device("ssd", rate=10), 1)}
    assert slow["random reads, 32 at a time"] == pytest.approx(10e6 / 4096), "the rate is reached first"
    loop = [row for row in devices.targets(device("ssd"), 1) if row.value == "latency"]
    assert "control group" in loop[0].judge
    assert not [row for row in devices.targets(device("nvm"), 1) if row.value == "rate"]


def test_files_that_are_measured_fit_on_the_device():
    made = device("ssd", size="16M")
    for row in devices.targets(made, 60):
        sizes = [int(word.removeprefix("--size=")) for word in row.fio if word.startswith("--size=")]
        assert sizes[-1] * (32 if row.own_files else 1) <= 32 << 20
        assert sizes[0] <= made.size_bytes // 3 or sizes[0] == 0


@pytest.mark.parametrize(
    ("judge", "measured", "fine"),
    [("both", 109.0, True), ("both", 111.0, False), ("both", 89.0, False), ("at least", 500.0, True), ("at least", 80.0, False),
     ("at most", 1.0, True), ("at most", 120.0, False), ("nothing sets it", 1.0, True)],
)  # fmt: skip
def test_judging(judge, measured, fine):
    found = devices.judged(Target("x", "us", 100.0, (), "latency", judge), measured, 0.1)
    assert found.fine is fine and found.deviation == pytest.approx(measured / 100 - 1)
    assert found.judged is (judge != "nothing sets it")


def test_what_fio_says():
    side = {"total_ios": 5, "bw_bytes": 120e6, "iops": 99.5, "clat_ns": {"percentile": {"50.000000": 8_000_000}}}
    result = {"jobs": [{"read": side, "write": {**side, "total_ios": 0}}]}
    assert measuring.value_of(result, Target("sequential read", "MB/s", 1, (), "bandwidth", "both")) == 120
    assert measuring.value_of(result, Target("random reads", "/s", 1, (), "rate", "both")) == 99.5
    assert measuring.value_of(result, Target("random read", "us", 1, (), "latency", "both")) == 8000
    with pytest.raises(Failure, match="moved nothing"):
        measuring.value_of(result, Target("sequential write", "MB/s", 1, (), "bandwidth", "both"))


def test_missing_fio_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(Failure, match="apt-get install fio"):
        measuring.fio()


# --- control groups --------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A made-up tree of control groups: writing makes control files and is told; groups are directories."""
    written = []

    def write(path, text):
        written.append((path.relative_to(tmp_path).as_posix(), text))
        if path.name == "cgroup.subtree_control":
            text = path.read_text() + " " + text.lstrip("+") if path.exists() else text.lstrip("+")
        path.write_text(text)

    def mounts(*lines):
        (tmp_path / "mounts").write_text("".join(f"{line}\n" for line in lines))

    monkeypatch.setattr(groups, "MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(groups, "_write", write)
    mounts()
    return tmp_path, mounts, written


def test_version_1(tree):
    top, mounts, written = tree
    (top / "blkio").mkdir()
    (top / "memory").mkdir()
    mounts(f"cgroup {top}/memory cgroup rw,memory 0 0", f"cgroup {top}/blkio cgroup rw,relatime,blkio 0 0")
    assert groups.block() is None, "a kernel without throttling"
    (top / "blkio/blkio.throttle.read_bps_device").write_text("")
    hierarchy = groups.block()
    assert hierarchy == groups.Hierarchy(1, top / "blkio")
    groups.set_rates(hierarchy, "penstock-device-some", "7:3", 120_000_000, 150)
    assert ("blkio/blkio.throttle.write_bps_device", "7:3 120000000") in written, (
        "on the root group: it holds everybody"
    )
    assert ("blkio/blkio.throttle.read_iops_device", "7:3 150") in written
    assert groups.rates_in_force(hierarchy, "", "7:3") and not groups.rates_in_force(hierarchy, "", "7:30")
    written.clear()
    groups.clear_rates(hierarchy, "7:3")
    assert [text for _, text in written] == ["7:3 0"] * 4
    written.clear()
    files = groups.joined_by_run("penstock-device-some", "run-5", 1 << 30, 1)
    assert files == [top / "blkio/cgroup.procs", top / "memory/penstock-device-some.run-5/cgroup.procs"]
    assert written == [("memory/penstock-device-some.run-5/memory.limit_in_bytes", str(1 << 30))]
    (top / "memory/penstock-device-some.run-5/memory.limit_in_bytes").unlink()
    (top / "memory/penstock-device-somebody.run-5").mkdir()
    assert groups.groups_of("penstock-device-some") == [top / "memory/penstock-device-some.run-5"]
    assert groups.remove(groups.groups_of("penstock-device-some")) == []
    assert groups.groups_of("penstock-device-some") == []


def test_version_2(tree):
    top, mounts, written = tree
    root = top / "unified"
    root.mkdir()
    mounts(f"cgroup2 {root} cgroup2 rw 0 0")
    assert groups.block() is None, "its controllers are used by version 1"
    (root / "cgroup.controllers").write_text("cpu io memory\n")
    hierarchy = groups.block()
    assert hierarchy == groups.Hierarchy(2, root) == groups.memory()
    groups.set_rates(hierarchy, "penstock-device-some", "7:3", 500, 0)
    assert written == [
        ("unified/cgroup.subtree_control", "+io"),
        ("unified/penstock-device-some/io.max", "7:3 rbps=500 wbps=500 riops=max wiops=max"),
    ]
    assert groups.rates_in_force(hierarchy, "penstock-device-some", "7:3")
    written.clear()
    files = groups.joined_by_run("penstock-device-some", "run-5", 64 << 20, 2)
    assert files == [root / "penstock-device-some/run-5/cgroup.procs"], "in a group without groups below it"
    assert ("unified/penstock-device-some/cgroup.subtree_control", "+memory") in written
    assert ("unified/penstock-device-some/run-5/memory.max", str(64 << 20)) in written
    found = groups.groups_of("penstock-device-some")
    assert found == [root / "penstock-device-some/run-5", root / "penstock-device-some"], "the inner one first"


def test_a_command_is_in_its_groups_before_it_starts(tmp_path):
    files = [tmp_path / "first", tmp_path / "second"]
    line = groups.entering(files, ["sh", "-c", 'echo "$$ $1"', "sh", "a b"])
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    number, _, rest = done.stdout.strip().partition(" ")
    assert rest == "a b" and [file.read_text().strip() for file in files] == [number, number]
    assert groups.entering([], ["x"]) == ["x"]
    refused = groups.entering([tmp_path / "no" / "such"], ["touch", str(tmp_path / "ran")])
    assert subprocess.run(refused, capture_output=True, check=False).returncode == 126
    assert not (tmp_path / "ran").exists()


def test_no_memory_controller(tree):
    with pytest.raises(Failure, match="memory controller"):
        groups.joined_by_run("x", "run-1", 1 << 20, 0)


# --- real devices ----------------------------------------------------------------------------------------------------------


def why_not(method: str) -> str:
    try:
        devices.checked(Wanted("some", "nvm" if method == "memory" else "ssd", method=method), real_machine())
    except Failure as failure:
        return str(failure)
    return "only root can mount memory" if method == "memory" and os.geteuid() != 0 else ""


def real_machine() -> Machine:
    before = os.environ.get("PENSTOCK_LIBDIR")
    os.environ |= LIBRARIES
    try:
        return making.machine()
    finally:
        os.environ.pop("PENSTOCK_LIBDIR")
        if before is not None:
            os.environ["PENSTOCK_LIBDIR"] = before


def needs(method: str):
    return pytest.mark.skipif(bool(why_not(method)), reason=why_not(method) or "-")


needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is missing; on Debian: apt-get install fio")


@pytest.fixture
def name(monkeypatch):
    """Of a device that is gone after the test, whatever happens in it."""
    chosen = f"test{os.getpid()}"
    for variable, value in LIBRARIES.items():
        monkeypatch.setenv(variable, value)
    yield chosen
    making.down(chosen)


@pytest.fixture
def call(penstock, name):
    def of(*words, **more):
        first, *rest = words
        return penstock("testbed", "device", first, "--name", name, *rest, environment=LIBRARIES, **more)

    return of


def traces(name: str) -> list[str]:
    """Everything that is left of a device on the machine."""
    mark = f"device-{name}"
    found = [
        f"process {number}"
        for number in processes.numbers()
        if any(mark in word for word in processes.words_of(number))
    ]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if mark in line]
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        found += [str(file)] if mark in file.read_text() else []
    for text in Path("/sys/fs/cgroup").glob("*/blkio.throttle.*_device"):
        found += [
            f"{text}: {line}" for line in text.read_text().splitlines() if line.startswith("7:") and not_attached(line)
        ]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/*{mark}*")]
    return found + ([str(devices.state_of(name))] if devices.state_of(name).exists() else [])


def not_attached(line: str) -> bool:
    return not (Path("/sys/dev/block") / line.split()[0] / "loop").exists()


@needs("fuse")
def test_a_real_device_by_fuse(call, name, tmp_path):
    at = tmp_path / "some disk"
    answer = call("up", "--profile", "hdd", "--size", "64M", "--latency", "3000", "--at", at, "--json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["up"] and found["method"] == "fuse" and found["directory"] == str(at) and found["latency_us"] == 3000
    again = call("up", "--profile", "hdd")
    assert again.returncode == 1 and f"down --name {name}" in again.stderr

    (at / "file").write_bytes(bytes(range(256)) * 5000)
    assert (at / "file").read_bytes() == bytes(range(256)) * 5000
    check_it_is_a_file_system(at)
    handle = os.open(at / "file", os.O_RDWR)
    try:
        began = time.monotonic()
        for index in range(10):
            os.pread(handle, 100, (index * 7919) % 1_000_000)
        assert time.monotonic() - began >= 10 * 0.003, "none sooner than its latency"
    finally:
        os.close(handle)

    inside = call("run", "--", "sh", "-c", 'cat "$PENSTOCK_DEVICE/file" | wc -c; exit 7')
    assert inside.returncode == 7 and inside.stdout.strip() == "1280000", inside.stderr
    busy = subprocess.Popen(["sleep", "60"], cwd=at)
    try:
        refused = call("down")
        assert refused.returncode == 1 and f"{busy.pid} (sleep)" in refused.stderr
        assert call("status").returncode == 0, "all of it stays"
    finally:
        busy.kill()
        busy.wait()
    assert json.loads(call("down", "--json").stdout) == {"name": name, "removed": True}
    assert traces(name) == [] and not at.exists()
    assert call("status").returncode == 1 and call("down").returncode == 0


def check_it_is_a_file_system(at: Path) -> None:
    (at / "one/two").mkdir(parents=True)
    (at / "one/link").symlink_to("two")
    os.link(at / "file", at / "one/two/same")
    assert (at / "one/two/same").stat().st_nlink == 2 and (at / "one/link").readlink() == Path("two")
    (at / "one/two/same").rename(at / "one/other")
    assert sorted(path.name for path in (at / "one").iterdir()) == ["link", "other", "two"]
    with (at / "one/added").open("ab") as added:
        added.write(b"ab")
        added.flush()
        os.ftruncate(added.fileno(), 1)
        added.write(b"c")
    assert (at / "one/added").read_bytes() == b"ac"
    with (at / "one/gone").open("w+b") as gone:
        (at / "one/gone").unlink()
        gone.write(b"still there")
        gone.flush()
        gone.seek(0)
        assert gone.read() == b"still there" and os.fstat(gone.fileno()).st_size == 11
    (at / "one/added").chmod(0o640)
    os.utime(at / "one/added", (5, 6))
    facts = (at / "one/added").stat()
    assert facts.st_mode & 0o777 == 0o640 and facts.st_mtime == 6
    with pytest.raises(FileNotFoundError):
        (at / "nothing").read_bytes()
    shutil.rmtree(at / "one")


# Directories that are read, filled and removed at the same time: whoever answers may not touch what the next request takes away.
MANY = """
import os, shutil, sys, threading
def work(number):
    for turn in range(4):
        place = os.path.join(sys.argv[1], f"{number}-{turn}")
        os.mkdir(place)
        for index in range(10):
            with open(os.path.join(place, str(index)), "wb") as file:
                file.write(b"x" * index)
        assert len(os.listdir(place)) == 10
        list(os.walk(sys.argv[1]))
        shutil.rmtree(place)
threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("done")
"""


@needs("fuse")
def test_many_at_a_time(call, name):
    assert call("up", "--profile", "nvm", "--method", "fuse", "--size", "32M").returncode == 0
    at = making.find(name).directory
    done = subprocess.run([sys.executable, "-c", MANY, at], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "done\n" and done.stderr == "" and list(Path(at).iterdir()) == []
    assert call("status").returncode == 0, "the file system process lives"


@needs("fuse")
def test_a_file_system_process_that_died(call, name):
    assert call("up", "--profile", "hdd", "--size", "32M").returncode == 0
    made = making.find(name)
    for number in making.fuse_processes(made):
        os.kill(number, signal.SIGKILL)
    assert bed.waited_for(lambda: making.trouble(made) != "", 5)
    answer = call("status", "--json")
    assert answer.returncode == 1 and "died" in json.loads(answer.stdout)["devices"][0]["trouble"]
    assert call("check").returncode == 1
    assert call("down").returncode == 0 and traces(name) == []


@needs("loop")
def test_a_real_device_by_loop(call, name):
    answer = call("up", "--profile", "ssd", "--size", "64M", "--page-cache", "32M", "--json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["method"] == "loop" and "control groups version" in found["held_by"]
    made = making.find(name)
    assert made.number and groups.rates_in_force(groups.block(), made.group, made.number)
    at = Path(found["directory"])
    # Read twice, a file larger than the page cache comes from the device twice; and the limit is gone with the run.
    (at / "file").write_bytes(bytes(48 << 20))
    os.sync()
    script = 'for i in 1 2; do cat "$PENSTOCK_DEVICE/file" >/dev/null; done; grep -E "memory|^0::" /proc/self/cgroup'
    inside = call("run", "--", "sh", "-c", script)
    assert inside.returncode == 0 and "penstock-device-" in inside.stdout, inside.stderr + inside.stdout
    assert groups.groups_of(made.group) in ([], [Path(f"/sys/fs/cgroup/{made.group}")])
    assert call("down").returncode == 0
    assert traces(name) == []


@needs("memory")
def test_a_real_device_in_memory(call, name):
    answer = call("up", "--profile", "nvm", "--size", "32M", "--json")
    assert answer.returncode == 0, answer.stderr
    at = Path(json.loads(answer.stdout)["directory"])
    (at / "file").write_text("x")
    listed = call("status")
    assert listed.returncode == 0 and str(at) in listed.stdout
    refused = call("run", "--page-cache", "64M", "true")
    assert refused.returncode == 2 and "lies in memory" in refused.stderr
    assert call("down").returncode == 0 and not at.exists() and traces(name) == []


@needs_fio
@needs("loop")
def test_measuring(call, name):
    assert call("up", "--profile", "ssd", "--size", "64M").returncode == 0
    answer = call("check", "--seconds", "0.5", "--tolerance", "100", "--json")
    found = json.loads(answer.stdout)
    assert len(found["measurements"]) == 5 and found["tolerance"] == 1
    assert answer.returncode == (0 if found["fine"] else 1)
    for row in found["measurements"]:
        assert row["measured"] > 0 and row["deviation"] == pytest.approx(row["measured"] / row["target"] - 1)
    # 100 ms slices: in half a second no more than one of them beyond the rate.
    reads = next(row for row in found["measurements"] if row["what"] == "random reads, 32 at a time")
    assert reads["measured"] <= 50_000 * 1.3
    assert [path for path in Path(found["directory"]).iterdir() if path.name != "lost+found"] == []


@pytest.mark.parametrize("failing", ["mkfs.ext4", "mount -t ext4", "losetup"])
@needs("loop")
def test_a_device_that_fails_half_way_is_taken_down(name, monkeypatch, failing):
    real = making.command

    def command(*words):
        if " ".join(map(str, words)).startswith(failing):
            if failing == "losetup" and "--find" in words:
                real(*words)  # killed between attaching it and saying which one it is
            raise Failure("broken")
        return real(*words)

    monkeypatch.setattr(making, "command", command)
    if failing == "losetup":
        monkeypatch.setattr(making, "command", lambda *words: command(*words) if "--find" in words else real(*words))
    with pytest.raises(Failure, match="broken"):
        making.up(Wanted(name, "ssd", size="16M"))
    assert traces(name) == []


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
@needs("fuse")
def test_an_up_that_is_ended(name, ending):
    words = [
        TOP / "bin/penstock",
        "testbed",
        "device",
        "up",
        "--name",
        name,
        "--profile",
        "ssd",
        "--method",
        "fuse",
        "--size",
        "64M",
    ]
    up = subprocess.Popen(words, env=os.environ | LIBRARIES, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert bed.waited_for(lambda: any(name in mount.point for mount in making.mounts()), 20)
    up.send_signal(ending)
    said = up.communicate(timeout=30)[1].decode()
    if ending == signal.SIGINT and up.returncode != 0:  # it may have been done
        assert "nothing is left" in said and traces(name) == []
    making.down(name)
    assert traces(name) == []


def test_a_device_that_is_not_there(penstock):
    name = f"none{os.getpid()}"
    answer = penstock("testbed", "device", "status", "--name", name, "--json")
    assert answer.returncode == 1 and json.loads(answer.stdout) == {"devices": []}
    for words in (["check", "--name", name], ["run", "--name", name, "true"]):
        answer = penstock("testbed", "device", *words)
        assert answer.returncode == 1 and f"no device {name} up" in answer.stderr
    assert penstock("testbed", "device", "down", "--name", name).returncode == 0
