"""What the kernel says about a bed: its processes, found by their scripts, and what crossed its links.  Reads /proc; changes nothing."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.testbed.layout import BRIDGE, HEAD, STORAGE, Bed, script_of

PROC = Path("/proc")


def numbers() -> Iterator[int]:
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            yield int(entry.name)


def words_of(process: int) -> list[str]:
    """Its command line; empty when it is gone, or has none."""
    try:
        text = (PROC / str(process) / "cmdline").read_bytes()
    except OSError:
        return []
    return [word.decode(errors="replace") for word in text.split(b"\0")[:-1]]


def status_of(process: int) -> dict[str, list[str]]:
    """/proc/N/status as words by name; empty when it is gone."""
    try:
        text = (PROC / str(process) / "status").read_text(errors="replace")
    except OSError:
        return {}
    return {name: value.split() for name, _, value in (line.partition(":") for line in text.splitlines())}


def _is_first(process: int) -> bool:
    """Whether it is root's, and the first process of a process namespace."""
    status = status_of(process)
    return status.get("Uid", [""])[0] == "0" and len(status.get("NSpid", [])) > 1 and status["NSpid"][-1] == "1"


def first_processes(bed: Bed) -> dict[str, int]:
    """The first process of the head and of each node that lives, as the machine numbers them."""
    scripts = {str(script_of(bed, node)): node for node in (HEAD, *bed.linked)}
    found = {}
    for process in numbers():
        words = words_of(process)
        node = scripts.get(words[1]) if len(words) == 2 and words[0] == "sh" else None
        if node is not None and _is_first(process):
            found[node] = process
    return found


def seen_from_head(process: int) -> int:
    """The number that a node's first process has in the bed's process namespace; 0 when it is gone."""
    ours = status_of(process).get("NSpid", [])
    return int(ours[-2]) if len(ours) >= 3 else 0


def alive(process: int) -> bool:
    state = status_of(process).get("State", ["Z"])
    return state[0] not in ("Z", "X")


def has_variable(process: int, variable: str) -> bool:
    """Whether it was started with NAME=VALUE in its environment."""
    try:
        return variable.encode() in (PROC / str(process) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def children(process: int) -> list[int]:
    return [other for other in numbers() if status_of(other).get("PPid") == [str(process)]]


def mounted(process: int, directory: Path) -> bool:
    """Whether something is mounted at `directory`, as the process sees it."""
    with contextlib.suppress(OSError):
        lines = (PROC / str(process) / "mounts").read_text().splitlines()
        return any(line.split()[1] == str(directory) for line in lines)
    return False


@dataclass(frozen=True)
class Traffic:
    """What crossed a link, seen from its node.  Bytes are those of Ethernet frames; packets are counted as the kernel hands them over, up to 64 KiB."""

    sent_bytes: int = 0
    sent_packets: int = 0
    received_bytes: int = 0
    received_packets: int = 0

    def __sub__(self, before: "Traffic") -> "Traffic":
        return Traffic(
            self.sent_bytes - before.sent_bytes,
            self.sent_packets - before.sent_packets,
            self.received_bytes - before.received_bytes,
            self.received_packets - before.received_packets,
        )


def traffic_of(process: int, device: str) -> Traffic:
    """What went through `device` in the network namespace of `process` since it was made; nothing when either is gone."""
    with contextlib.suppress(OSError):
        for line in (PROC / str(process) / "net/dev").read_text().splitlines():
            name, colon, values = line.partition(":")
            if colon and name.strip() == device:
                numbers_of = [int(word) for word in values.split()]
                return Traffic(numbers_of[8], numbers_of[9], numbers_of[0], numbers_of[1])
    return Traffic()


def traffic(first: dict[str, int]) -> dict[str, Traffic]:
    return {node: traffic_of(process, BRIDGE if node == HEAD else "eth0") for node, process in first.items()}


def between_nodes_bytes(links: dict[str, Traffic]) -> int:
    """What nodes sent one another: all that they sent but what the head and the storage node received."""
    ends = (HEAD, STORAGE)
    sent = sum(link.sent_bytes for node, link in links.items() if node not in ends)
    return max(0, sent - sum(links[node].received_bytes for node in ends if node in links))
