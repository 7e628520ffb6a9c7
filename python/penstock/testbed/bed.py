"""Makes a bed, takes it down, and starts programs in it.  What is to be made is said in layout.py and gluster.py."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.failure import Failure
from penstock.testbed import gluster, layout, processes
from penstock.testbed.layout import HEAD, Bed, Step

SECONDS_TO_START = 60
SECONDS_TO_END = 20
_PAUSE = 0.02
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_TOOLS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "hostname": "hostname",
}


def check_possible(bed: Bed) -> None:
    """Raises Failure when this machine or this user can not have the bed."""
    if os.geteuid() != 0:
        raise Failure(
            "a test bed needs root, for namespaces, links and mounts: run it by sudo, or in a virtual machine where you are root"
        )
    wanted = _TOOLS | (gluster.TOOLS if bed.striped else {})
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    missing = [tool for tool in wanted if shutil.which(tool, path=path) is None]
    if missing:
        packages = " ".join(dict.fromkeys(wanted[tool] for tool in missing))
        raise Failure(
            f"a test bed needs {' and '.join(missing)}; on Debian: apt-get install --no-install-recommends {packages}"
        )
    if bed.striped and not Path("/dev/fuse").exists():
        raise Failure("--fs gluster: there is no /dev/fuse, which a GlusterFS mount needs; load the kernel module fuse")
    for directory in bed.shared:
        if not Path(directory).is_dir():
            raise Failure(f"--share {directory}: there is no such directory")


@contextlib.contextmanager
def locked(directory: Path | None = None) -> Iterator[None]:
    """One up or down at a time.  The lock is the directory of the beds itself (or another one), so nothing is left of it."""
    home = directory or layout.HOME
    while True:
        try:
            home.mkdir(mode=0o755, parents=True, exist_ok=True)
            handle = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue  # another one has just removed it
        fcntl.flock(handle, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):
            if os.fstat(handle).st_ino == home.stat().st_ino:
                break
        os.close(handle)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            home.rmdir()  # stays when other beds are up
        os.close(handle)


def entering(process: int, words: Sequence[str], network_only: bool = False) -> list[str]:
    """`words` inside the namespaces of `process`."""
    which = ["-n"] if network_only else ["-n", "-u", "-m", "-i", "-p"]
    return ["nsenter", "-t", str(process), *which, "--", *words]


def carry_out(step: Step, first: dict[str, int]) -> str:
    """Runs one step to its end; what it printed.  Raises Failure with what it said."""
    line = entering(first[step.node], step.words, step.network_only)
    try:
        done = subprocess.run(
            line,
            input=step.text,
            capture_output=True,
            text=True,
            timeout=SECONDS_TO_START,
            check=False,
            env=plain_environment(),
        )
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{step.node}: {' '.join(step.words)}: no end within {SECONDS_TO_START} s") from error
    except OSError as error:
        raise Failure(f"{line[0]}: can not be started: {error.strerror}") from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise Failure(f"{step.node}: {' '.join(step.words)} ended with {done.returncode}: {said or 'without a word'}")
    return done.stdout


def waited_for(condition: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE)
    return True


class Ended(BaseException):
    """A signal that ends us, as something that can be caught where there is something to take down."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def signals_as_exceptions() -> Iterator[None]:
    def end(number: int, _frame: object) -> None:
        raise Ended(number)

    before: dict[signal.Signals, Any] = {}
    for number in _ENDING:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: somebody's own, not set from Python
            before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Signals wake nobody up while a bed is taken down; those that came are there when it is over.  To be called by the main thread.

    Masked for this thread and for the tools that it starts.  A thread of some library may still be given one, and its handler would run here: so handlers
    only note it.
    """
    came: list[int] = []
    handlers: dict[signal.Signals, Any] = {}
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        for number in _ENDING:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                handlers[number] = signal.signal(number, lambda noted, _frame: came.append(noted))
        yield
    finally:
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for noted in came:
                signal.raise_signal(noted)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)


def up(
    bed: Bed, progress: Callable[[str], None], carry: Callable[[Step, dict[str, int]], str] = carry_out
) -> dict[str, int]:
    """Makes the bed; the first process of every node.  Raises Failure; then nothing is left of it.

    Ended half way, by a signal too, it takes down what there is.  Killed, its pipe to the bed's first process closes, and that one ends with all the
    others; only the state directory stays, until the next up or down.
    """
    check_possible(bed)
    with locked():
        if found := processes.first_processes(bed):
            raise Failure(
                f"the test bed {bed.name} is up, with {len(found) - 1} nodes; penstock testbed down{_name_option(bed)} removes it"
            )
        _remove_state(bed)
        try:
            with signals_as_exceptions():
                return _make(bed, progress, carry)
        except BaseException as error:
            with undisturbed():
                _take_down(bed)
            if isinstance(error, Ended):
                raise Failure("ended by a signal; nothing is left of the test bed", 128 + error.number) from None
            raise


def _name_option(bed: Bed) -> str:
    return "" if bed.name == "default" else f" --name {bed.name}"


def _write_state(bed: Bed) -> None:
    bed.state.mkdir(mode=0o700)
    for name in ("stage", "ready", "process", "runs"):
        (bed.state / name).mkdir()
    for name, text in layout.files(bed).items():
        (bed.state / name).write_text(text)
    layout.remote_shell(bed).chmod(0o700)
    (bed.state / "bed.json").write_text(json.dumps(bed.as_json()) + "\n")


def _make(bed: Bed, progress: Callable[[str], None], carry: Callable[[Step, dict[str, int]], str]) -> dict[str, int]:
    _write_state(bed)
    with (bed.state / "log").open("wb") as log:
        keeper = subprocess.Popen(
            layout.unshared(str(layout.script_of(bed, HEAD))),
            stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, cwd="/", env=plain_environment())  # fmt: skip
    assert keeper.stdin is not None
    with keeper.stdin as pipe:
        first = _wait_until_ready(bed, keeper)
        for step in layout.network(bed, first):
            carry(step, first)
        if bed.striped:
            gluster.up(bed, first, carry, progress)
        pipe.write(b"stay\n")
        pipe.flush()
    return first


def plain_environment() -> dict[str, str]:
    """What the daemons of a bed see of ours: nothing preloaded, and where commands are."""
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


def _wait_until_ready(bed: Bed, keeper: "subprocess.Popen[bytes]") -> dict[str, int]:
    wanted = {HEAD, *bed.linked}

    def ready() -> bool:
        return keeper.poll() is not None or {path.name for path in (bed.state / "ready").iterdir()} >= wanted

    in_time = waited_for(ready, SECONDS_TO_START)
    first = processes.first_processes(bed)
    if not in_time or keeper.poll() is not None or set(first) != wanted:
        missing = ", ".join(sorted(wanted - set(first))) or "none"
        said = " ".join((bed.state / "log").read_text(errors="replace").split())
        raise Failure(f"the nodes could not be started (missing: {missing}): {said or 'no command said why'}")
    for node, process in first.items():
        (bed.state / "process" / node).write_text(f"{processes.seen_from_head(process)}\n")
    return first


def down(bed: Bed) -> bool:
    """Takes the bed down; whether there was anything.  Nothing that is not the bed's is touched.  Raises Failure when the kernel does not let go of it."""
    with locked(), undisturbed():
        return _take_down(bed)


def _take_down(bed: Bed) -> bool:
    first = processes.first_processes(bed)
    # The head's death ends all; the others are named in case that it is dead already, in which case they are about to be.
    for process in sorted(first.values(), key=lambda process: process != first.get(HEAD)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    if not waited_for(lambda: not any(map(processes.alive, first.values())), SECONDS_TO_END):
        left = " ".join(str(process) for process in first.values() if processes.alive(process))
        raise Failure(
            f"processes {left} of the test bed do not end; a file system in it may hang. Call down again when they are gone."
        )
    return _remove_state(bed) or bool(first)


def _remove_state(bed: Bed) -> bool:
    """Only the bed's own mount namespaces have anything mounted below it, and they are gone."""
    if not bed.state.is_dir():
        return False
    shutil.rmtree(bed.state)
    return True


def find(name: str) -> Bed | None:
    """The bed of that name as it was made, dead or alive; None when there is none."""
    state = Bed(name, 0, "").state
    if state.exists() and not os.access(state, os.R_OK):
        raise Failure(f"{state} can be read by root only, who made the test bed")
    try:
        return layout.bed_of(json.loads((state / "bed.json").read_text()))
    except (OSError, ValueError, KeyError):
        # A bed that was never finished, or whose directory somebody removed: its processes are found by their scripts all the same.
        unfinished = Bed(name, layout.MOST_NODES, "", striped=True)
        return unfinished if state.exists() or processes.first_processes(unfinished) else None


@dataclass(frozen=True)
class Live:
    """A bed that is up and whole."""

    bed: Bed
    first: dict[str, int]


def live(name: str) -> Live:
    """Raises Failure when the bed is not up, or some of it died."""
    bed = find(name)
    first = processes.first_processes(bed) if bed else {}
    if bed is None or not first:
        option = "" if name == "default" else f" --name {name}"
        raise Failure(f"there is no test bed {name} up; penstock testbed up{option} makes one")
    missing = {HEAD, *bed.linked} - set(first)
    if missing:
        raise Failure(
            f"{', '.join(sorted(missing))} of the test bed died; penstock testbed down{_name_option(bed)}, then up again"
        )
    return Live(bed, first)


def sweep(variable: str) -> int:
    """Ends the processes that were started with this NAME=VALUE; how many there were.  First they are asked."""
    found = [process for process in processes.numbers() if processes.has_variable(process, variable)]
    for ending, seconds in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 5.0)):
        left = [process for process in found if processes.alive(process) and processes.has_variable(process, variable)]
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, ending)
        if waited_for(lambda left=left: not any(map(processes.alive, left)), seconds):  # type: ignore[misc]
            break
    return len(found)
