"""The benchmark programs and the kernels at tiny sizes: they run, verify their bytes and print the promised JSON."""

import json
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import collective  # noqa: E402
import independent  # noqa: E402
import launching  # noqa: E402
import planner  # noqa: E402

BUILD = launching.default_build()
TIMEOUT_SECONDS = 120.0


def mpis():
    """The distribution's, where there are any: the packages' MPIs run the same library under the programs of tests/mpi."""
    try:
        found = launching.installed(BUILD)
        return [mpi for mpi in found if not mpi.name.startswith("wheel-")] or found
    except SystemExit as missing:
        return [pytest.param(None, marks=pytest.mark.skip(reason=str(missing)))]


@pytest.fixture(params=mpis(), ids=lambda mpi: mpi.name if mpi else "none")
def mpi(request):
    return request.param


def start(mpi, ranks, *words):
    program, *rest = words
    line = launching.line(mpi, ranks, [mpi.program(program), *rest])
    return launching.result(line, launching.environment(mpi, ranks), TIMEOUT_SECONDS)


@pytest.mark.parametrize("pattern", ["contiguous", "interleaved"])
def test_independent_and_bound_see_the_same_bytes(mpi, tmp_path, pattern):
    words = ["--pattern", pattern, "--piece", 24, "--count", 301, "--repetitions", 2, "--file", tmp_path / "data"]
    measured = start(mpi, 3, "independent", *words)
    bound = start(mpi, 3, "bound", *words)
    assert measured["bytes"] == bound["bytes"] == 24 * 301 * 3
    parts = [measured[mode] for mode in independent.MODES] + [bound[way] for way in independent.WAYS]
    assert all(part["verified"] for part in parts)
    assert len({part["hash"] for part in parts}) == 1
    assert all(len(values) == 2 and min(values) > 0 for part in parts for values in part["seconds"].values())
    assert list(tmp_path.iterdir()) == []


def test_bound_crosses_windows(mpi, tmp_path):
    """A file of more than two windows of 16 MiB, with pieces across their borders."""
    words = [
        "--pattern",
        "interleaved",
        "--piece",
        1000,
        "--count",
        18_001,
        "--repetitions",
        1,
        "--file",
        tmp_path / "data",
    ]
    assert all(start(mpi, 2, "bound", *words)[way]["verified"] for way in independent.WAYS)


def test_calls_and_view(mpi, tmp_path):
    calls = start(
        mpi, 1, "independent", "--pattern", "calls", "--count", 700, "--repetitions", 2, "--file", tmp_path / "data"
    )
    assert calls["verified"]
    assert all(len(values) == 2 and min(values) > 0 for values in calls["nanoseconds"].values())
    view = start(
        mpi, 2, "independent", "--pattern", "view", "--count", 1000, "--repetitions", 2, "--file", tmp_path / "data"
    )
    assert view["verified"]
    assert len(view["seconds"]["view"]) == 2


def test_wrong_size_of_piece_is_refused(mpi, tmp_path):
    with pytest.raises(launching.LaunchFailure, match="multiple of 8"):
        start(mpi, 1, "independent", "--pattern", "contiguous", "--piece", 12, "--file", tmp_path / "data")


@pytest.mark.parametrize("mode", ["--collective", "--independent"])
def test_e3sm_on_the_mesh(mpi, tmp_path, mode):
    """More ranks than can have whole elements of their own still give every column an owner."""
    file = tmp_path / "data"
    found = start(mpi, 3, "e3sm", "--json", "--keep", "--ne", 2, "--levels", 3, "--variables", 5, mode, "--file", file)
    columns = 54 * 2 * 2 + 2
    record = columns * (8 + 8 + 4) + 4 * columns * (1 + 3 + 1 + 3 + 1)
    assert found["verified"]
    assert found["mode"] == mode.removeprefix("--")
    with file.open("rb") as opened:
        header = json.loads(opened.readline())
    assert [variable["name"] for variable in header["variables"][:3]] == ["lat", "lon", "domain"]
    assert header["record_bytes"] == record
    assert found["file_bytes"] == file.stat().st_size == header["header_bytes"] + 2 * record
    assert found["bytes_written"] == found["file_bytes"]
    assert found["bytes_read"] == 2 * 2 * record


def test_e3sm_writes_the_same_file_for_any_grouping(mpi, tmp_path):
    words = ["e3sm", "--json", "--keep", "--ne", 2, "--levels", 2, "--variables", 6]
    one = start(mpi, 2, *words, "--file", tmp_path / "one")
    all_at_once = start(mpi, 2, *words, "--group", 0, "--file", tmp_path / "all")
    assert one["hash"] == all_at_once["hash"]
    assert all_at_once["calls"] < one["calls"]
    assert (tmp_path / "one").read_bytes() == (tmp_path / "all").read_bytes()


def write_map(path, offsets, lengths, size):
    """A map for two ranks made from text, by the tool that comes with NetCDF."""
    per_rank = len(offsets) // 2
    text = f"""netcdf map {{
dimensions: num_decomp = 1 ; decomp_nprocs = 2 ; D1.total_nreqs = {len(offsets)} ;
variables: int D1.nreqs(decomp_nprocs) ; int D1.fill_starts(decomp_nprocs) ;
int D1.offsets(D1.total_nreqs) ; int D1.lengths(D1.total_nreqs) ; :D1.dims = {size} ;
data: D1.nreqs = {per_rank}, {per_rank} ; D1.fill_starts = {per_rank}, {per_rank - 1} ;
D1.offsets = {", ".join(map(str, offsets))} ; D1.lengths = {", ".join(map(str, lengths))} ; }}
"""
    source = path.with_suffix(".cdl")
    source.write_text(text)
    done = launching.run(["ncgen", "-k", "cdf5", "-o", str(path), str(source)], {"PATH": "/usr/bin:/bin"}, 30.0)
    assert done.returncode == 0, done.stderr


needs_ncgen = pytest.mark.skipif(shutil.which("ncgen") is None, reason="ncgen (netcdf-bin) is not installed")


@needs_ncgen
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_e3sm_deals_a_map_out_to_any_number_of_ranks(mpi, tmp_path, ranks):
    write_map(tmp_path / "map.nc", [9, 0, 5, 2], [3, 2, 4, 3], 14)
    found = start(
        mpi, ranks, "e3sm", "--json", "--map", tmp_path / "map.nc", "--variables", 2, "--file", tmp_path / "data"
    )
    assert found["verified"]
    assert found["bytes_read"] == 2 * 2 * 2 * 12 * 8
    assert not (tmp_path / "data").exists()


@needs_ncgen
def test_e3sm_refuses_a_map_that_writes_an_element_twice(mpi, tmp_path):
    write_map(tmp_path / "map.nc", [9, 0, 1, 4], [3, 2, 2, 3], 14)
    with pytest.raises(launching.LaunchFailure, match="element 1 is requested twice"):
        start(mpi, 2, "e3sm", "--json", "--map", tmp_path / "map.nc", "--file", tmp_path / "data")


REAL_MAPS = sorted((ROOT.parent / "shared" / "data" / "e3sm").glob("map_*.nc"))


@pytest.mark.skipif(not REAL_MAPS, reason="../shared/data/e3sm/map_*.nc are not there")
@pytest.mark.parametrize("path", REAL_MAPS, ids=lambda path: path.stem)
def test_e3sm_on_the_real_maps(mpi, tmp_path, path):
    found = start(
        mpi, 2, "e3sm", "--json", "--map", path, "--records", 1, "--variables", 6, "--file", tmp_path / "data"
    )
    assert found["verified"]


KERNELS = {
    # ranks, options, pieces that the pattern has by its own formula, bytes; btio: where the slabs meet, two lines of one rank are one piece
    "interleave": (3, ["-b", 24, "-t", 8, "-s", 100], 3 * 100, 3 * 2400),
    "btio": (4, ["--points", 12, "--variables", 3], 3 * (12 * 12 * 2 - 1), 40 * 12**3 * 3),
    "s3d": (4, ["--points", 12, "--blocks", "2,2,1"], 12 * 12 * 16 * 2, 128 * 12**3),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_have_the_pieces_of_their_pattern(mpi, tmp_path, kernel):
    ranks, words, pieces, size = KERNELS[kernel]
    found = start(mpi, ranks, kernel, *words, "--repetitions", 2, "--file", tmp_path / "data")
    assert (found["program"], found["pieces"], found["file_bytes"]) == (kernel, pieces, size)
    assert found["verified"] and found["checked"]
    assert (found["bytes_written"], found["bytes_read"]) == (size, 2 * size)
    assert all(
        len(found["seconds"][series]) == 2 for series in ("open", "view", "write", "write_pass", "read", "close")
    )
    assert all(len(values) == 2 for costs in found["costs"].values() for values in costs.values())
    assert list(tmp_path.iterdir()) == []


def test_time_steps_make_the_same_file_however_they_are_called(mpi, tmp_path):
    """One view for all time steps, one for each, gaps in memory, independent calls: the bytes are the same."""
    ways = ([], ["--view-each"], ["--ghost", 2], ["--independent"])
    files = [tmp_path / str(number) for number in range(len(ways))]
    for file, way in zip(files, ways, strict=True):
        words = ["--points", 7, "--variables", 3, "--keep", *way]
        assert start(mpi, 4, "btio", *words, "--file", file)["verified"]
    assert len({file.read_bytes() for file in files}) == 1


def test_random_places_are_those_of_the_seed(mpi, tmp_path):
    words = ["interleave", "-b", 32, "-t", 8, "-s", 40, "--per-call", 50, "--file", tmp_path / "data"]
    one, same, other = (start(mpi, 3, *words, "-z", seed)["pieces_max"] for seed in (1, 1, 2))
    regular = start(mpi, 3, *words)
    assert one == same != other
    assert regular["pieces"] == 3 * (40 + 2), "calls of 50 transfers end in the middle of a block of 4, twice"


def test_a_damaged_or_short_file_is_noticed(mpi, tmp_path):
    file = tmp_path / "data"
    words = ["interleave", "-b", 512, "-s", 20, "--file", file]
    assert start(mpi, 2, *words, "--write-only", "--keep", "--seed", 4)["verified"]
    assert start(mpi, 2, *words, "--read-only", "--seed", 4)["verified"]
    assert start(mpi, 2, *words, "--read-only", "--seed", 5)["wrong_bytes"] > 0
    content = bytearray(file.read_bytes())
    content[12345] ^= 1
    file.write_bytes(content)
    for check in ([], ["--no-plain"], ["--reorder", "--no-plain"]):
        damaged = start(mpi, 2, *words, "--read-only", "--seed", 4, *check)
        assert not damaged["verified"] and damaged["wrong_bytes"] > 0
    unchecked = start(mpi, 2, *words, "--read-only", "--seed", 4, "--no-verify")
    assert unchecked["verified"] and not unchecked["checked"]
    file.write_bytes(bytes(content)[:-1])
    # Some libraries tell the count that there was, some the count that was asked for.
    try:
        assert not start(mpi, 2, *words, "--read-only", "--seed", 4)["verified"]
    except launching.LaunchFailure as failure:
        assert "moved 10239 bytes, 10240 were expected" in str(failure)


@pytest.mark.parametrize(
    ("kernel", "ranks", "words", "told"),
    [
        ("btio", 2, [], "2 ranks: a square number was expected"),
        ("btio", 4, ["--points", 1], "at least one for each of the 2 cells"),
        ("s3d", 2, ["--blocks", "3,1,1"], "a product of 2, the number of ranks"),
        ("interleave", 1, ["-b", 10, "-t", 4], "a block of whole transfers"),
        ("interleave", 1, ["--hint", "cb_nodes"], "KEY=VALUE was expected"),
        ("interleave", 1, ["--read-only", "--write-only"], "exclude each other"),
        ("madbench2", 2, [], "a square number of ranks"),
        ("s3asim", 1, ["--histogram", "5-4:1"], "LEAST-MOST:WEIGHT"),
        ("e3sm", 1, ["--posix", "--ne", 2], "whose bytes follow from their place"),
    ],
)
def test_kernels_refuse_what_makes_no_sense(mpi, tmp_path, kernel, ranks, words, told):
    with pytest.raises(launching.LaunchFailure, match=told):
        start(mpi, ranks, kernel, *words, "--file", tmp_path / "data")


def made_up_cell(mode, penstock_ms, native_ms, other_ms):
    facts = {"pattern": "interleaved", "piece_bytes": 8, "mode": mode}
    return {
        "name": f"made up {mode}",
        "facts": facts,
        "native_ms": native_ms,
        "penstock_ms": penstock_ms,
        "native_other_mode_ms": other_ms,
        "ratio": native_ms / penstock_ms,
        "times_bound_map": penstock_ms / 2.0,
    }


def test_targets_are_judged_by_the_worst_cell():
    cells = [made_up_cell("independent", 2.0, 3.0, 10.0), made_up_cell("collective", 5.0, 10.0, 3.0)]
    judged = {target["target"]: target for target in independent.targets(cells)}
    against_native = judged["interleaved 8B: native collective time over Penstock's"]
    assert (against_native["figure"], against_native["cell"], against_native["met"]) == (
        2.0,
        "made up collective",
        False,
    )
    against_bound = judged["interleaved 8B: Penstock's time over the bound's mapped way"]
    assert (against_bound["figure"], against_bound["met"], against_bound["cells_met"]) == (2.5, False, 1)
    assert judged["contiguous 1MiB independent: native time over Penstock's"]["met"] is None


def test_benchmark_gives_cells_and_summary(mpi, tmp_path):
    """Native against native, so that it needs no library."""
    options = {
        "native_only": "1",
        "mpi": mpi.name,
        "directories": str(tmp_path),
        "pieces": "8",
        "rounds": "1",
        "repetitions": "1",
    }
    result = independent.run(
        quick=True, options=options | {"lines": str(tmp_path / "lines.jsonl")}, progress=lambda text: None
    )
    measured = [cell for cell in result["cells"] if cell["facts"]["pattern"] == "interleaved"]
    assert len(measured) == 4
    assert all(cell["verified"] and cell["ratio"] > 0 and cell["native"]["samples"] == 1 for cell in measured)
    assert result["summary"]["verified"]
    assert result["summary"]["min_ratio"] <= result["summary"]["geomean_ratio"]
    assert (tmp_path / "lines.jsonl").read_text().count("\n") == 8


@pytest.mark.parametrize(
    "option",
    [
        "pieces=nan",
        "pieces=-8",
        "pieces=",
        "ranks=0",
        "ranks=two",
        "rounds=-1",
        "repetitions=1e9",
        "timeout=nan",
        "timeout=inf",
        "timeout=0",
    ],
)
def test_values_of_options_are_checked(option):
    key, _, value = option.partition("=")
    with pytest.raises(SystemExit, match=f"{option}: expected"):
        independent.run(quick=True, options={key: value}, progress=lambda text: None)


def test_ranks_whose_end_openmpi_missed_are_judged_by_their_output():
    said = (
        "echo 'mpiexec.openmpi has exited due to process rank 0 with PID 0 on node n exiting improperly.' >&2; exit 1"
    )
    told = """echo '{"verified": true}'; """
    where = {"PATH": "/usr/bin:/bin"}
    assert launching.result(["sh", "-c", told + said], where, 30.0) == {"verified": True}
    for script in (said, told + "exit 1", told + "echo aborted >&2; exit 1"):
        with pytest.raises(launching.LaunchFailure, match="exit code"):
            launching.result(["sh", "-c", script], where, 30.0)


def test_options_are_checked():
    with pytest.raises(SystemExit, match="option 'piece': expected one of"):
        independent.run(quick=True, options={"piece": "8"}, progress=lambda text: None)


def test_collective_benchmark_gives_cells_and_summary(mpi, tmp_path):
    """Native against native, so that it needs no library."""
    options = {
        "native_only": "1",
        "mpi": mpi.name,
        "directories": str(tmp_path),
        "size": "tiny",
        "pieces": "64",
        "ranks": "2",
        "kernels": "interleave,e3sm-F",
        "maps": str(tmp_path),
        "rounds": "1",
        "repetitions": "1",
        "timeout": "100",
        "lines": str(tmp_path / "lines.jsonl"),
    }
    said = []
    result = collective.run(quick=False, options=options, progress=said.append)
    cells = {cell["name"].removeprefix(f"{mpi.name} "): cell for cell in result["cells"]}
    assert len(cells) == 2 * 2 and len(said) == 2
    assert all(cell["verified"] and cell["ratio"] > 0 and "failures" not in cell for cell in cells.values())
    name = next(name for name in cells if "interleave-64B x2 write" in name)
    assert cells[name]["bound_map_ms"] > 0 and cells[name]["times_bound_best"] > 0
    assert cells[name]["facts"]["file_bytes"] == 64 * 500 * 2
    meshes = [cell["facts"]["mesh"] for cell in cells.values() if cell["facts"]["kernel"] == "e3sm-F"]
    assert set(meshes) == {"cubed sphere, 2 elements along an edge, 3 levels"}, "no map there, and the cell says so"
    summary = result["summary"]
    assert summary["verified"] and summary["min_ratio"] <= summary["geomean_ratio"]
    assert summary[f"{mpi.name}_geomean_ratio"] == pytest.approx(summary["geomean_ratio"])
    assert (tmp_path / "lines.jsonl").read_text().count("\n") == 2 * 3 + 1


def test_an_interrupted_benchmark_tells_what_it_has(mpi, tmp_path):
    options = {"native_only": "1", "mpi": mpi.name, "directories": str(tmp_path), "size": "tiny", "ranks": "1"}
    options |= {"kernels": "interleave,s3d", "pieces": "8", "rounds": "1", "repetitions": "1"}

    def interrupt_at_the_second(text):
        if "2 of 2" in text:
            raise KeyboardInterrupt

    result = collective.run(
        quick=False, options=options | {"lines": str(tmp_path / "lines.jsonl")}, progress=interrupt_at_the_second
    )
    assert [cell["facts"]["kernel"] for cell in result["cells"]] == ["interleave", "interleave"]
    assert result["summary"]["left_out"] == [
        f"{result['cells'][0]['name'].split(' interleave')[0]} s3d x1: interrupted"
    ]


def test_block_tridiagonal_runs_on_square_numbers_of_ranks(mpi, tmp_path):
    options = {
        "native_only": "1",
        "mpi": mpi.name,
        "directories": str(tmp_path),
        "kernels": "btio,s3d",
        "ranks": "2,4,9",
    }
    cases = collective.cases_of(collective.settings(False, options))
    assert [(case.work.name, case.ranks) for case in cases] == [
        ("s3d", 2),
        ("btio", 4),
        ("s3d", 4),
        ("btio", 9),
        ("s3d", 9),
    ]


@pytest.mark.skipif(not launching.default_library(BUILD).is_file(), reason="libpenstock.so is not built")
def test_collective_benchmark_tells_what_penstock_counted(mpi, tmp_path):
    options = {
        "mpi": mpi.name,
        "directories": str(tmp_path),
        "size": "tiny",
        "ranks": "2",
        "kernels": "s3d",
        "strategy": "two_phase",
        "hints": "cb_nodes=2",
        "rounds": "1",
        "repetitions": "1",
        "timeout": "100",
        "lines": str(tmp_path / "lines.jsonl"),
    }
    result = collective.run(quick=False, options=options, progress=lambda text: None)
    write, read = result["cells"]
    assert write["verified"] and read["verified"]
    assert write["report"]["counters"]["two_phase"] == 4 * 2, "four calls of two ranks"
    assert write["report"]["counters"]["bytes_written"] == read["report"]["counters"]["bytes_read"] == 128 * 12**3
    assert result["summary"]["environment"] == {"PENSTOCK_HINTS": "cb_nodes=2;penstock_strategy=two_phase"}
    assert [target["limit"] for target in result["summary"]["targets"]] == [3.0, 1.0, 0.7, 0.5]


@pytest.mark.skipif(not launching.default_library(BUILD).is_file(), reason="libpenstock.so is not built")
def test_a_strategy_that_does_not_exist_is_not_measured(mpi, tmp_path):
    options = {
        "mpi": mpi.name,
        "directories": str(tmp_path),
        "strategy": "fastest",
        "lines": str(tmp_path / "lines.jsonl"),
    }
    with pytest.raises(SystemExit, match="penstock_strategy=fastest: .*fastest"):
        collective.run(quick=True, options=options, progress=lambda text: None)


def collective_cell(mpi, ranks, native_ms, alone_ms, penstock_ms, bound_ms, piece=64):
    facts = {
        "mpi": mpi,
        "storage": "tmpfs",
        "kernel": "interleave",
        "piece_bytes": piece,
        "ranks": ranks,
        "operation": "write",
        "file_bytes": 1000 * ranks,
    }
    return {
        "name": f"{mpi} x{ranks} {piece}",
        "facts": facts,
        "ratio": native_ms / penstock_ms,
        "ratio_best": min(native_ms, alone_ms) / penstock_ms,
        "penstock_ms": penstock_ms,
        "times_bound_best": penstock_ms / bound_ms,
        "behind_native": penstock_ms > native_ms,
    }


def test_collective_targets():
    cells = [
        collective_cell("mpich", 2, 80.0, 20.0, 10.0, 8.0),
        collective_cell("mpich", 16, 450.0, 450.0, 100.0, 90.0),
        collective_cell("openmpi", 2, 9.0, 30.0, 10.0, 5.0, collective.MEBIBYTE),
    ]
    judged = {target["target"]: target for target in collective.targets(cells, "")}
    bound = judged["interleave: Penstock's time over the bound"]
    assert (bound["figure"], bound["cell"], bound["met"], bound["cells_met"]) == (2.0, cells[2]["name"], False, 2)
    mean = judged["native collective over Penstock, geometric mean"]
    assert mean["cell"] == "openmpi" and mean["figure"] == pytest.approx(0.9) and mean["cells_met"] == 1
    assert judged["cells behind native collective beyond noise"]["cell"] == cells[2]["name"]
    kept = judged["throughput of 16 ranks over that of 2"]
    assert kept["figure"] == pytest.approx(0.8) and kept["met"]
    forced = {target["target"]: target for target in collective.targets(cells, "two_phase")}
    assert forced["native collective over Penstock, every cell"]["met"], "Open MPI does not aggregate its 1 MiB pieces"
    assert forced["the same where Open MPI does not aggregate"]["met"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"piece": "8"}, "option 'piece': expected one of"),
        ({"kernels": "flash"}, "kernels=flash: expected some of interleave"),
        ({"pieces": "7"}, "pieces=7: expected some of 8, 64"),
        ({"ranks": "two"}, "ranks=two: expected whole numbers"),
        ({"size": "huge"}, "size=huge: expected one of tiny"),
        ({"environment": "A"}, "environment=A: expected NAME=VALUE"),
        ({"maps": "/nowhere"}, "maps=/nowhere: expected a directory"),
    ],
)
def test_collective_options_are_checked(mpi, options, told):
    with pytest.raises(SystemExit, match=told):
        collective.run(quick=True, options={"native_only": "1", **options}, progress=lambda text: None)


@pytest.mark.skipif(not (BUILD / "bench/planner").is_file(), reason="bench/planner is not built")
def test_planning_costs_what_it_did():
    """Memory and instructions do not depend on how busy the machine is; another compiler counts a little differently."""
    result = planner.run(quick=True, options={"ranks": 256, "timeout": 60}, progress=lambda _: None)
    two_layer, two_phase = result["cells"]
    assert two_layer["described_bytes"] < two_phase["described_bytes"] / 10
    assert 0 < two_layer["peak_bytes"] < planner.MEBIBYTE and two_phase["peak_bytes"] < planner.MEBIBYTE
    if shutil.which("valgrind"):
        assert 0.5 < result["summary"]["instructions_over_kept"] < 1.5
    else:
        assert result["summary"]["instructions"] is None


def test_planner_refuses_what_it_does_not_know():
    with pytest.raises(SystemExit, match="ranks=many"):
        planner.run(quick=True, options={"ranks": "many"}, progress=lambda _: None)


def test_s3asim_leaves_the_same_results_whoever_finds_them(mpi, tmp_path):
    words = ["s3asim", "--queries", 4, "--count-max", 30, "--fragment-bytes", 9000, "--chunk-bytes", 4000, "--keep"]
    alone = start(mpi, 1, *words, "--posix", "--file", tmp_path / "alone")
    together = start(mpi, 3, *words, "--collective", "--query-sync", "--file", tmp_path / "together")
    assert alone["results"] == together["results"] > 0
    assert alone["file_bytes"] == (tmp_path / "alone").stat().st_size > 0
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "together").read_bytes()
    assert alone["hash"] == together["hash"]


def test_hacc_lays_particles_out_by_rank_or_by_variable(mpi, tmp_path):
    words = ["hacc", "--particles", 11, "--keep", "--independent"]
    ranks = start(mpi, 2, *words, "--layout", "ranks", "--file", tmp_path / "ranks")
    start(mpi, 2, *words, "--layout", "files", "--posix", "--file", tmp_path / "files")
    assert ranks["calls"] == 2 * 9 * 3 and ranks["file_bytes"] == 2 * 11 * 38
    files = b"".join((tmp_path / f"files.0000{rank}").read_bytes() for rank in range(2))
    assert files == (tmp_path / "ranks").read_bytes()
