"""What must cross the links of a test bed, what did, and how long that takes at least.  Pure: counters and sizes in, bytes and seconds out.

An aggregator has a part of the file; a byte crosses one link out and one in when the rank that has it in its memory is on another node than the
aggregator that has its place in the file.  The least for a placement is the sum of those bytes, each once.  Penstock counts them where they are sent
(bytes_between_nodes), and that is what the kernel's counters of the links are held against.  Where the placement is known beforehand, which it is of
btio with a given number of aggregators, the least is computed here from the cells of the ranks instead.

What the links allow.  Both directions of a link have the rate.  The busiest direction of all links decides: its share of what crossed, of the least
bytes, over the rate.  On GlusterFS all bricks are on one node: its link takes one and a half times what is written (of three fragments one is
parity) and gives what is read; where that is more, that decides.
"""

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence

from penstock.testbed import layout, processes

DOMAIN_ALIGNMENT_BYTES = 4096  # file domains begin at multiples of what the file system likes
POINT_BYTES = 40  # of btio: five numbers
PARITY = 1.5  # bytes on the bricks for each byte of a file


def cut(points: int, cells: int, index: int) -> tuple[int, int]:
    """Where a cell begins and ends along an edge: as kernels/btio cuts it, the first ones a point longer where it is not even."""
    even, rest = divmod(points, cells)
    low = index * even + min(index, rest)
    return low, low + even + (index < rest)


def btio_lines(points: int, edge: int, rank: int) -> Iterator[tuple[int, int]]:
    """The bytes [first, end) of one time step that a rank has, a line of points at a time; ranks are edge * edge."""
    for slab in range(edge):
        (x, x_end), (y, y_end), (z, z_end) = (
            cut(points, edge, place) for place in ((rank % edge + slab) % edge, (rank // edge - slab) % edge, slab)
        )
        for plane, row in itertools.product(range(z, z_end), range(y, y_end)):
            line = (plane * points + row) * points
            yield (line + x) * POINT_BYTES, (line + x_end) * POINT_BYTES


def domain_borders(first: int, end: int, aggregators: int) -> list[int]:
    """Equal parts of what is accessed, which begin at multiples of the file system's block, rounded down."""
    inner = [
        (first + (end - first) * place // aggregators) // DOMAIN_ALIGNMENT_BYTES * DOMAIN_ALIGNMENT_BYTES
        for place in range(1, aggregators)
    ]
    return [first, *(max(border, first) for border in inner), end]


def least_of_btio(points: int, variables: int, nodes: int, per_node: int, aggregators: int) -> int:
    """Bytes of all time steps that ranks have on another node than the aggregator of their place is on.  Aggregators are spread evenly over the
    nodes and stand in the order of ranks."""
    edge = round((nodes * per_node) ** 0.5)
    step = points**3 * POINT_BYTES
    lines = [
        (rank // per_node, first, end)
        for rank in range(nodes * per_node)
        for first, end in btio_lines(points, edge, rank)
    ]
    crossing = 0
    for variable in range(variables):
        begin = variable * step
        borders = domain_borders(begin, begin + step, aggregators)
        for place in range(aggregators):
            low, high = borders[place] - begin, borders[place + 1] - begin
            home = place * nodes // aggregators
            crossing += sum(max(0, min(end, high) - max(first, low)) for node, first, end in lines if node != home)
    return crossing


def busiest_share(links: Mapping[str, processes.Traffic]) -> float:
    """Of all that crossed between nodes, the part that one direction of one node's link had."""
    own = [link for node, link in links.items() if node not in (layout.HEAD, layout.STORAGE)]
    sent, received = ([link.sent_bytes for link in own], [link.received_bytes for link in own])
    return max((max(part) / sum(part) for part in (sent, received) if sum(part)), default=0.0)


def limit_seconds(link: str, least: float, share: float, storage_bytes: float) -> float | None:
    """What the busiest direction of a link takes; None where links have no rate."""
    if link == "none":
        return None
    return max(least * share, storage_bytes) * 8 / layout.bits_per_second(link)


def storage_bytes_of(storage: str, operation: str, file_bytes: int) -> float:
    """What the storage node's link must carry in one direction."""
    if storage == "machine":
        return 0.0
    return file_bytes * (PARITY if operation == "write" else 1.0)


def crossed_bytes(launches: Sequence[Mapping[str, processes.Traffic]], startup: int, repetitions: int) -> float | None:
    """Between nodes in one repetition, without what starting and ending takes: the median of all launches."""
    each = [(processes.between_nodes_bytes(dict(links)) - startup) / repetitions for links in launches]
    return max(0.0, statistics.median(each)) if each else None


def startup_of(once: float, repeated: float, more: int) -> int:
    """What a launch sends besides its repetitions: of one repetition it sent `once` in all, of `more` beyond that `repeated`."""
    return max(0, round(once - (repeated - once) / more))
