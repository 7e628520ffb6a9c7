"""What a test bed looks like: names, addresses, files, and the commands that make it.  Pure: starts nothing, looks at nothing.

Everything of a bed is held by processes and by nothing else: no named namespace, no mount outside of the bed's own mount namespaces.  When the
bed's first process dies, the kernel ends every other (they share its process namespace) and takes down links and mounts with them.
"""

import ipaddress
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.failure import USAGE, Failure
from penstock.paths import checkout_root, library_directory

# State of the beds.  Each node sees a directory of its own here but for its bed's state.
HOME = Path("/run/penstock")
# Directories that every node has for itself, so that nothing of one node's memory or scratch space can be seen on another.
PRIVATE = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path("/run"))
STRIPED = HOME / "gluster"  # where the volume is mounted on every node
BRICKS = 3
MOST_NODES = 64
HEAD = "head"
STORAGE = "storage"
BRIDGE = "bridge0"
NETWORK = ipaddress.IPv4Network("10.77.0.0/24")

_RATE = re.compile(r"(\d+(?:\.\d+)?)(k|m|g|t)bit")
_POWERS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")


@dataclass(frozen=True)
class Bed:
    """All that was decided when the bed was made."""

    name: str
    nodes: int
    link: str  # a rate as tc takes it, or "" for links that are not shaped
    shared: tuple[str, ...] = ()  # directories below a private one that all nodes see all the same
    striped: bool = False  # with a storage node and its volume

    @property
    def state(self) -> Path:
        return HOME / f"testbed-{self.name}"

    @property
    def compute(self) -> list[str]:
        return [f"node{index}" for index in range(self.nodes)]

    @property
    def linked(self) -> list[str]:
        """Every node that has a link; the head sits on the bridge itself."""
        return self.compute + ([STORAGE] if self.striped else [])

    def address(self, node: str) -> str:
        if node == HEAD:
            return str(NETWORK[254])
        return str(NETWORK[200 if node == STORAGE else int(node.removeprefix("node")) + 1])

    def port(self, node: str) -> str:
        """The bridge's end of a node's link."""
        return f"to-{node}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def bed_of(value: Mapping[str, Any]) -> Bed:
    """The inverse of Bed.as_json."""
    return Bed(value["name"], value["nodes"], value["link"], tuple(value["shared"]), value["striped"])


def checked(name: str, nodes: int, link: str, shared: Iterable[Path], file_system: str) -> Bed:
    """A bed as the user asked for it.  Raises Failure (usage) for what can not be meant."""
    if not _NAME.fullmatch(name):
        raise Failure(f"--name {name!r}: expected small letters, digits and dashes, at most 31", USAGE)
    if not 1 <= nodes <= MOST_NODES:
        raise Failure(f"--nodes {nodes}: expected 1 to {MOST_NODES}", USAGE)
    if file_system not in ("", "gluster"):
        raise Failure(f"--fs {file_system!r}: expected gluster", USAGE)
    link = "" if link == "none" else link.lower()
    if link and bits_per_second(link) < 10**5:
        raise Failure(f"--link {link}: expected at least 100kbit", USAGE)
    for directory in shared:
        if not directory.is_absolute() or directory in (*PRIVATE, Path("/")) or HOME in (directory, *directory.parents):
            raise Failure(f"--share {directory}: expected a directory below {_named(PRIVATE)}", USAGE)
    wanted = [directory for directory in shared if any(private in directory.parents for private in PRIVATE)]
    return Bed(name, nodes, link, tuple(str(directory) for directory in wanted), file_system == "gluster")


def own_places() -> list[Path]:
    """Where Penstock and its Python lie, when that is below a directory of which each node has its own: to be shared."""
    places = {(checkout_root() or library_directory().parent).resolve(), Path(sys.prefix).resolve()}
    places = {place for place in places if any(private in place.parents for private in PRIVATE)}
    return sorted(place for place in places if not places.intersection(place.parents))


def _named(directories: Iterable[Path]) -> str:
    return ", ".join(str(directory) for directory in directories)


def bits_per_second(link: str) -> float:
    """1gbit -> 1e9.  Raises Failure (usage) for anything else than a number and kbit, mbit, gbit or tbit."""
    match = _RATE.fullmatch(link)
    if not match:
        raise Failure(f"--link {link!r}: expected a rate such as 1gbit, 200mbit or 2.5gbit, or none", USAGE)
    return float(match[1]) * _POWERS[match[2]]


def burst_bytes(link: str) -> int:
    """Two milliseconds' worth: less holds a fast link below its rate.  Never less than one packet as the kernel hands it to a link (64 KiB)."""
    return max(128 * 1024, int(bits_per_second(link) / 8 * 0.002))


def hosts(bed: Bed) -> str:
    """/etc/hosts on every node."""
    lines = ["127.0.0.1 localhost"] + [f"{bed.address(node)} {node}" for node in (HEAD, *bed.linked)]
    return "\n".join(lines) + "\n"


def private_on(bed: Bed, node: str) -> list[tuple[Path, list[Path]]]:
    """The private directories of a node, each with what stays shared below it."""
    shared = [bed.state, *map(Path, bed.shared)]
    own = [Path("/var/lib/glusterd"), Path("/var/log/glusterfs")] if node == STORAGE else []
    return [(private, [path for path in shared if private in path.parents]) for private in (*PRIVATE, *own)]


_PRIVATE = """\
# private DIRECTORY SHARED...: an empty DIRECTORY for this node alone, but for what is SHARED below it.
private() {
  directory=$1
  shift
  [ -d "$directory" ] && [ ! -L "$directory" ] || return 0
  mount -n -t tmpfs -o mode=1777 penstock-testbed "$stage"
  for path in "$@"; do
    mkdir -p "$stage${path#"$directory"}"
    mount -n --bind "$path" "$stage${path#"$directory"}"
  done
  mount -n --move "$stage" "$directory"
}
"""
# Waiting is all that the first process of a node does; it reaps what others leave behind.
_STAY = "while :; do sleep 3600 & wait $! || :; done\n"


def _put_on(bed: Bed, node: str) -> str:
    state = shlex.quote(str(bed.state))
    text = f"set -eu\nstage={state}/stage\n{_PRIVATE}"
    text += f"hostname {node}\nmount -n --bind {state}/hosts /etc/hosts\nmount -n -t sysfs sysfs /sys\n"
    # Neighbour discovery and router messages of IPv6 would be counted as traffic.
    text += "echo 1 2>&- >/proc/sys/net/ipv6/conf/default/disable_ipv6 || :\n"
    for directory, shared in private_on(bed, node):
        text += shlex.join(["private", str(directory), *map(str, shared)]) + "\n"
    return text + f": >{state}/ready/{node}\n"


def node_script(bed: Bed, node: str) -> str:
    return f"# The first process of {node}.\n" + _put_on(bed, node) + _STAY


def unshared(*script: str) -> list[str]:
    """Starts a shell script as the first process of namespaces of its own; dies with it, and it with this."""
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--mount", "--uts", "--ipc", "--propagation", "private",
            "--", "sh", *script]  # fmt: skip


def bed_script(bed: Bed) -> str:
    """The first process of the bed, which is the head too.  It stays only when it is told to: when whoever makes the bed dies half way, it ends."""
    text = "# The first process of the bed.\n" + _put_on(bed, HEAD)
    for node in bed.linked:
        text += shlex.join(unshared(str(script_of(bed, node)))) + " </dev/null &\n"
    return text + 'read -r word && [ "$word" = stay ] || exit 1\nexec </dev/null\n' + _STAY


def script_of(bed: Bed, node: str) -> Path:
    return bed.state / f"{node}.sh"


def remote_shell(bed: Bed) -> Path:
    return bed.state / "remote-shell"


def remote_shell_script(bed: Bed) -> str:
    """Stands for ssh, on the head: remote-shell [OPTIONS] NODE WORDS..., the words given to a shell as ssh does."""
    return (
        "#!/bin/sh\n"
        "# Stands for ssh between the nodes of a test bed.\n"
        "while [ $# -gt 0 ]; do\n"
        "  case $1 in -o | -l | -p | -i | -b | -e) shift 2 ;; -*) shift ;; *) break ;; esac\n"
        "done\n"
        "node=$1\nshift\n"
        f"read -r process <{shlex.quote(str(bed.state))}/process/$node || exit 255\n"
        'exec nsenter -t "$process" -n -u -m -i -p -- /bin/sh -c "$*"\n'
    )


def files(bed: Bed) -> dict[str, str]:
    """What stands in the state directory before anything is started, by name; scripts and the hosts file."""
    out = {script_of(bed, node).name: node_script(bed, node) for node in bed.linked}
    out[script_of(bed, HEAD).name] = bed_script(bed)
    return out | {remote_shell(bed).name: remote_shell_script(bed), "hosts": hosts(bed)}


@dataclass(frozen=True)
class Step:
    """A command inside one node's namespaces; `network_only` leaves it the machine's file system and processes."""

    node: str
    words: tuple[str, ...]
    text: str = ""  # on its standard input
    network_only: bool = False


def network(bed: Bed, process: Mapping[str, int]) -> list[Step]:
    """The bridge, the links and their rates.  `process` has each node's first process, as the machine numbers it."""

    def ip(node: str, *lines: str) -> Step:
        return Step(node, ("ip", "-batch", "-"), "\n".join(lines) + "\n", network_only=True)

    prefix = NETWORK.prefixlen
    steps = [
        ip(
            HEAD,
            "link set lo up",
            f"link add {BRIDGE} type bridge forward_delay 0 stp_state 0 mcast_snooping 0",
            f"addr add {bed.address(HEAD)}/{prefix} dev {BRIDGE}",
            f"link set {BRIDGE} up",
        )
    ]
    for node in bed.linked:
        port = bed.port(node)
        steps += [
            ip(
                HEAD,
                f"link add {port} type veth peer name eth0 netns {process[node]}",
                f"link set {port} master {BRIDGE} up",
            ),
            ip(node, "link set lo up", f"addr add {bed.address(node)}/{prefix} dev eth0", "link set eth0 up"),
        ]
    return steps + shaping(bed)


def shaping(bed: Bed) -> list[Step]:
    """Both directions of each link: what the node sends, and what the bridge sends to the node, where many senders meet."""
    if not bed.link:
        return []
    rate = f"root tbf rate {bed.link} burst {burst_bytes(bed.link)} latency 20ms"

    def tc(node: str, *devices: str) -> Step:
        lines = "".join(f"qdisc replace dev {device} {rate}\n" for device in devices)
        return Step(node, ("tc", "-batch", "-"), lines, network_only=True)

    return [tc(HEAD, *map(bed.port, bed.linked)), *(tc(node, "eth0") for node in bed.linked)]


def share_out(ranks: int, nodes: int) -> list[int]:
    """Ranks for each node, in blocks, as evenly as they go; the first nodes get one more."""
    return [ranks // nodes + (index < ranks % nodes) for index in range(nodes)]


def host_files(bed: Bed, per_node: Iterable[int]) -> dict[str, str]:
    """Which node takes how many ranks, as each kind of launcher reads it, by file name."""
    places = [(node, count) for node, count in zip(bed.compute, per_node, strict=False) if count]
    return {
        "hydra": "".join(f"{node}:{count}\n" for node, count in places),
        "open-mpi": "".join(f"{node} slots={count}\n" for node, count in places),
    }


def launch_variables(bed: Bed, directory: Path) -> dict[str, str]:
    """Makes every mpiexec on the head start its ranks on the nodes, by the host files in `directory`.  Variables, so that what the user says on the
    line wins."""
    agent, hydra, open_mpi = str(remote_shell(bed)), str(directory / "hydra"), str(directory / "open-mpi")
    return {
        "TMPDIR": "/tmp",
        # MPICH and its relatives, Intel MPI.
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": agent,
        "HYDRA_HOST_FILE": hydra,
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,
        "I_MPI_HYDRA_HOST_FILE": hydra,
        # Open MPI 5, then 4: nodes have more ranks than their share of the cores, and none may be bound to one.
        "PRTE_MCA_plm_ssh_agent": agent,
        "PRTE_MCA_prte_default_hostfile": open_mpi,
        "PRTE_MCA_rmaps_default_mapping_policy": "slot:oversubscribe",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "OMPI_MCA_plm_rsh_agent": agent,
        "OMPI_MCA_orte_default_hostfile": open_mpi,
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "OMPI_MCA_btl_tcp_if_include": "eth0",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_osc": "^ucx",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        # Only root can use a bed, and both of these refuse root unless they are told twice.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


def hidden(bed: Bed, path: Path) -> Path | None:
    """The private directory that keeps nodes from seeing `path` of this machine, or None."""
    inside = (path, *path.parents)
    common = [bed.state, *map(Path, bed.shared), *([STRIPED] if bed.striped else [])]
    if any(directory in inside for directory in common):
        return None
    return next((private for private in PRIVATE if private in inside), None)
