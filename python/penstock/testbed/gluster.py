"""The striped volume of a bed: a GlusterFS server on the storage node, the volume mounted on every other.  All of it lies in the nodes' private
directories, the bricks in memory.

The volume is dispersed: files lie in stripes over two bricks, with a third for parity.  A sharded one would be striped too, but GlusterFS keeps the
sizes of sharded files for one writer only: several nodes that write one file leave it with a wrong size, with every cache off.

Nodes see one another's names and sizes at once, and contents when a file is opened again.  What a node has read of an open file stays in its page
cache until that is dropped, so another node's writes are not seen by themselves: the case that the standard's sync, barrier, sync is for.  The caches
of GlusterFS itself are off: no program can make them forget, they only grow old after a second.
"""

import time
from collections.abc import Callable

from penstock.failure import Failure
from penstock.testbed import processes
from penstock.testbed.layout import BRICKS, HEAD, HOME, STORAGE, STRIPED, Bed, Step

TOOLS = {"glusterd": "glusterfs-server", "gluster": "glusterfs-server", "glusterfs": "glusterfs-client"}
VOLUME = "bed"
CACHES_OFF = ("quick-read", "io-cache", "stat-prefetch", "open-behind", "flush-behind")
SECONDS_TO_MOUNT = 60


def bricks() -> list[str]:
    return [str(HOME / "bricks" / str(index)) for index in range(BRICKS)]


def server_steps(bed: Bed) -> list[Step]:
    """From an empty storage node to a volume that can be mounted; the daemon listens inside the bed's network and nowhere else."""

    def admin(*words: str) -> Step:
        return Step(STORAGE, ("gluster", "--mode=script", *words))

    return [
        Step(STORAGE, ("mkdir", "-p", *bricks())),
        Step(STORAGE, ("glusterd", "--log-level=WARNING")),
        # The first command finds the daemon still starting: the command line itself waits for it, if it is not in too great a hurry.
        Step(STORAGE, ("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do gluster --mode=script pool list >/dev/null 2>&1 && exit; sleep 1; done; exit 1")),
        admin("volume", "create", VOLUME, "disperse", str(BRICKS), "redundancy", "1", *(f"{STORAGE}:{path}" for path in bricks()), "force"),
        *(admin("volume", "set", VOLUME, f"performance.{cache}", "off") for cache in CACHES_OFF),
        admin("volume", "start", VOLUME),
    ]  # fmt: skip


def mount_step(node: str) -> Step:
    server = (
        f"--volfile-server={STORAGE}",
        f"--volfile-id={VOLUME}",
        "--log-level=WARNING",
        "--log-file=/tmp/gluster.log",
    )
    names_and_sizes = ("--attribute-timeout=0", "--entry-timeout=0", "--negative-timeout=0")
    contents = ("--auto-invalidation=no", "--fopen-keep-cache=off")
    mount = ("glusterfs", *server, *names_and_sizes, *contents, str(STRIPED))
    return Step(node, ("sh", "-c", 'mkdir -p "$0" && exec "$@"', str(STRIPED), *mount))


def up(
    bed: Bed, first: dict[str, int], carry: Callable[[Step, dict[str, int]], str], progress: Callable[[str], None]
) -> None:
    """Raises Failure with what the daemon said."""
    progress("starting GlusterFS on the storage node; this takes some seconds")
    try:
        for step in server_steps(bed):
            carry(step, first)
        for node in (HEAD, *bed.compute):
            carry(mount_step(node), first)
            _wait_for_mount(node, first)
    except Failure as failure:
        raise Failure(f"GlusterFS could not be had: {failure}{_last_words(first, carry)}") from failure


def _wait_for_mount(node: str, first: dict[str, int]) -> None:
    until = time.monotonic() + SECONDS_TO_MOUNT
    while not processes.mounted(first[node], STRIPED):
        if time.monotonic() > until:
            raise Failure(f"{node}: the volume is not mounted after {SECONDS_TO_MOUNT} s")
        time.sleep(0.05)


def _last_words(first: dict[str, int], carry: Callable[[Step, dict[str, int]], str]) -> str:
    show = "tail -n 3 /var/log/glusterfs/glusterd.log 2>/dev/null || :"
    try:
        said = carry(Step(STORAGE, ("sh", "-c", show)), first)
    except Failure:
        return ""
    return f"; glusterd's log ends: {' '.join(said.split())}" if said.strip() else ""
