"""What a report says about messages between nodes is what has to be sent: a program whose every message can be counted by hand.

Four ranks on two pretended nodes write PIECES pieces each, in turn; a window of the file has one of every rank, and ranks 0 and 2 write or read half
of the file each, window by window.  So a window needs one message from every other local aggregator whose team has data in it.

Or each writes its pieces one behind the other, which are one and a half windows: half a node's data are the aggregator's own.
"""

import json
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "bench"))

import launching  # noqa: E402

LIBRARY = TOP / "build/release/lib/libpenstock.so"
RANKS, PIECE_BYTES, PIECES = 4, 1024, 6
WINDOW_BYTES = RANKS * PIECE_BYTES  # the least that cb_buffer_size can be
DATA_BYTES = PIECES * WINDOW_BYTES
PROGRAM = r"""
#include <mpi.h>
#include <string.h>
enum { PIECE = 1024, PIECES = 6 };
int main(int argc, char **argv) {
  int rank, ranks, wrong = 0, wrong_anywhere;
  unsigned char mine[PIECE * PIECES], back[PIECE * PIECES];
  MPI_File file;
  MPI_Datatype turn;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < PIECE * PIECES; ++i) mine[i] = (unsigned char)(i / 7 + rank * 31);
  MPI_Type_vector(PIECES, PIECE, ranks * PIECE, MPI_BYTE, &turn);
  MPI_Type_commit(&turn);
  for (int i = 1; i < argc; ++i) {
    int parts = strstr(argv[i], "parts") != NULL;
    MPI_Offset mine_at = (MPI_Offset)rank * PIECE * (parts ? PIECES : 1);
    MPI_Datatype type = parts ? MPI_BYTE : turn;
    wrong |= MPI_File_open(MPI_COMM_WORLD, argv[i], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    wrong |= MPI_File_set_view(file, mine_at, MPI_BYTE, type, "native", MPI_INFO_NULL);
    wrong |= MPI_File_write_all(file, mine, PIECE * PIECES, MPI_BYTE, MPI_STATUS_IGNORE);
    wrong |= MPI_File_close(&file);
    memset(back, 0, sizeof back);
    wrong |= MPI_File_open(MPI_COMM_WORLD, argv[i], MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    wrong |= MPI_File_set_view(file, mine_at, MPI_BYTE, type, "native", MPI_INFO_NULL);
    wrong |= MPI_File_read_all(file, back, PIECE * PIECES, MPI_BYTE, MPI_STATUS_IGNORE);
    wrong |= memcmp(mine, back, sizeof mine) != 0;
    wrong |= MPI_File_close(&file);
  }
  MPI_Allreduce(&wrong, &wrong_anywhere, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
  MPI_Finalize();
  return wrong_anywhere != 0;
}
"""

# One launch does all of these, each to a file of its own that the hints know by its name.
HINTS = {
    "phase": ["penstock_strategy=two_phase"],
    "layer": ["penstock_strategy=two_layer", "penstock_local_aggregators=1"],
    "alone": ["penstock_strategy=two_layer", "penstock_local_aggregators=2"],
}
PARTS = {f"parts-{name}": hints for name, hints in HINTS.items()}


@dataclass
class Line:
    """What a line of the report says of what was sent."""

    messages: int
    message_bytes: int
    messages_between_nodes: int
    bytes_between_nodes: int
    requests: int
    requests_joined: int
    request_bytes: int


def line_of(row):
    return Line(**{field.name: row["counters"].get(field.name, 0) for field in fields(Line)})


def reported(mpi, log, names, settings):
    """The lines of the report, two for each file: writing it, and reading it."""
    changed = {
        name: value for name, value in launching.environment(mpi, RANKS).items() if not name.startswith("PENSTOCK")
    }
    changed |= {"PENSTOCK_REPORT": str(log), **settings}
    done = launching.run(launching.line(mpi, RANKS, [mpi.program("turns"), *names], LIBRARY), changed, 90)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(text) for text in log.read_text().splitlines()]
    assert len(rows) == 2 * len(names)
    return rows


def launch(mpi, directory, ranks_per_node):
    """By file, what was sent for writing and for reading it."""
    log, names = directory / f"report-{ranks_per_node}.jsonl", [directory / f"{name}.data" for name in HINTS | PARTS]
    given = ["cb_nodes=2", f"cb_buffer_size={WINDOW_BYTES}"]
    given += [f"*/{name}.data:{hint}" for name, hints in (HINTS | PARTS).items() for hint in hints]
    settings = {"PENSTOCK_HINTS": ";".join(given), "PENSTOCK_RANKS_PER_NODE": str(ranks_per_node)}
    rows = reported(mpi, log, names, settings)
    for row in rows:
        assert row["nodes"] == RANKS // ranks_per_node and row["complaints"] == []
        phases = sum(phase["sum"] for phase in row["phases"].values())
        assert phases == pytest.approx(row["wall_seconds"]["sum"], rel=1e-6)
    for name in names:
        assert name.stat().st_size == DATA_BYTES
    return {name: [line_of(row) for row in rows[2 * i : 2 * i + 2]] for i, name in enumerate(HINTS | PARTS)}


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def mpi(request, tmp_path_factory):
    """An MPI with the program, in a directory of its own."""
    name = request.param
    compiler, launcher = shutil.which(f"mpicc.{name}"), shutil.which(f"mpiexec.{name}")
    if not compiler or not launcher:
        pytest.skip(f"mpicc.{name} or mpiexec.{name} is missing")
    if not LIBRARY.is_file():
        pytest.skip(f"{LIBRARY} is not built")
    directory = tmp_path_factory.mktemp(name)
    (directory / "turns.c").write_text(PROGRAM)
    subprocess.run([compiler, "-std=c11", "-o", directory / "turns", directory / "turns.c"], check=True, timeout=60)
    return launching.Mpi(name, name, Path(launcher), directory)


@pytest.fixture(scope="module")
def sent(mpi):
    """By ranks of a node, what launch() returns; each is launched once."""
    return cache(lambda ranks_per_node: launch(mpi, mpi.programs, ranks_per_node))


@pytest.mark.parametrize("name", ["phase", "alone"])
def test_two_phase_sends_a_message_from_every_rank(sent, name):
    """Also where it is called two-layer and each rank is its own local aggregator."""
    for line in sent(2)[name]:
        assert (line.messages, line.message_bytes) == (3 * PIECES, 3 * PIECES * PIECE_BYTES)
        # Of the three other ranks, two are on the other node.
        assert (line.messages_between_nodes, line.bytes_between_nodes) == (2 * PIECES, 2 * PIECES * PIECE_BYTES)
        assert (line.requests, line.requests_joined) == (0, 0)


def test_two_layers_send_a_message_from_every_team(sent):
    """The two ranks of the other node are one team: half the messages between nodes, the same bytes, and none inside a node."""
    for line in sent(2)["layer"]:
        assert (line.messages, line.message_bytes) == (PIECES, 2 * PIECES * PIECE_BYTES)
        assert (line.messages_between_nodes, line.bytes_between_nodes) == (line.messages, line.message_bytes)
        # Each team joins the two descriptions of its ranks to one.
        assert (line.requests, line.requests_joined) == (RANKS, 2)


def test_teams_tell_less_than_ranks(sent):
    written, read = (one.request_bytes for one in sent(2)["layer"])
    of_ranks = sent(2)["phase"][0].request_bytes
    assert written == read and 0 < written < of_ranks / 2


@pytest.mark.parametrize("name", HINTS)
def test_one_node_sends_nothing_to_another(sent, name):
    for line in sent(RANKS)[name]:
        assert line.messages > 0 and line.message_bytes > 0
        assert (line.messages_between_nodes, line.bytes_between_nodes) == (0, 0)


@pytest.mark.parametrize("name", HINTS)
def test_every_rank_a_node(sent, name):
    """Then every message goes between nodes, in two layers too."""
    for line in sent(1)[name]:
        assert (line.messages, line.message_bytes) == (3 * PIECES, 3 * PIECES * PIECE_BYTES)
        assert (line.messages_between_nodes, line.bytes_between_nodes) == (line.messages, line.message_bytes)


@pytest.mark.parametrize(
    "layout, stripes", [("4k:1", 1), ("4k:2", 2), ("0-8k:4k:1,8k-eof:4k:3", 3), ("2k:4", 4), ("1k:6/3", 6)]
)
def test_each_target_of_a_striped_file_has_one_writer(mpi, layout, stripes):
    """The file has some turns over the pretended storage targets; what ranks wrote for others is counted by target and rank."""
    log, names = (
        mpi.programs / f"striped-{layout[:2]}-{stripes}.jsonl",
        [mpi.programs / f"striped-{name}.data" for name in HINTS],
    )
    given = ["cb_buffer_size=65536", *(f"*{name}.data:{hint}" for name, hints in HINTS.items() for hint in hints)]
    settings = {"PENSTOCK_LUSTRE_LAYOUT": layout, "PENSTOCK_RANKS_PER_NODE": "2", "PENSTOCK_HINTS": ";".join(given)}
    rows = reported(mpi, log, names, settings)
    for written, read in zip(rows[::2], rows[1::2], strict=True):
        assert written["counters"]["target_writers"] == stripes
        assert read["counters"]["target_writers"] == 0


def test_writers_of_targets_are_counted(mpi):
    """Three aggregators, as asked for, do not fit seven targets: then some have several writers."""
    name = mpi.programs / "unfit.data"
    settings = {"PENSTOCK_LUSTRE_LAYOUT": "1k:7", "PENSTOCK_HINTS": "penstock_strategy=two_phase;cb_nodes=3"}
    written, _ = reported(mpi, mpi.programs / "unfit.jsonl", [name], settings)
    assert 7 < written["counters"]["target_writers"] <= 21


def test_a_layout_may_be_the_bytes_that_lustre_tells(mpi):
    """A plain layout of four stripes of 2 KiB, each on a target of its own."""
    image = struct.pack("<IIQQIHH", 0x0BD10BD0, 1, 0, 0, 2048, 4, 0)
    image += b"".join(struct.pack("<QQII", 1, 0, 0, target) for target in (7, 3, 5, 1))
    layout = mpi.programs / "layout.lov"
    layout.write_bytes(image)
    settings = {"PENSTOCK_LUSTRE_LAYOUT": str(layout), "PENSTOCK_HINTS": "penstock_strategy=two_phase"}
    written, _ = reported(mpi, mpi.programs / "image.jsonl", [mpi.programs / "image.data"], settings)
    assert written["counters"]["target_writers"] == 4


@pytest.mark.parametrize("name", ["parts-phase", "parts-alone"])
def test_what_a_node_has_together_stays_there(sent, name):
    """The ranks beside the aggregators send what they have in the second window of their node, half of one, and all of the third."""
    for line in sent(2)[name]:
        assert (line.messages, line.message_bytes) == (2 * 2, 2 * PIECES * PIECE_BYTES)
        assert (line.messages_between_nodes, line.bytes_between_nodes) == (0, 0)


def test_what_a_team_has_together_is_not_sent(sent):
    for line in sent(2)["parts-layer"]:
        assert (line.messages, line.message_bytes, line.messages_between_nodes) == (0, 0, 0)
        assert (line.requests, line.requests_joined) == (RANKS, 2)


@pytest.mark.parametrize("name", PARTS)
def test_nodes_without_an_aggregator_send_their_part_to_one(sent, name):
    for line in sent(1)[name]:
        assert (line.messages, line.message_bytes) == (2 * 2, 2 * PIECES * PIECE_BYTES)
        assert (line.messages_between_nodes, line.bytes_between_nodes) == (line.messages, line.message_bytes)
