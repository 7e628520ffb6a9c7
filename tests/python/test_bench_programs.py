"""The benchmark programs and the climate kernel at tiny sizes: they run, verify their bytes and print the promised JSON."""

import json
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import independent  # noqa: E402
import launching  # noqa: E402

BUILD = launching.default_build()
TIMEOUT_SECONDS = 120.0


def mpis():
    try:
        return launching.installed(BUILD)
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
    words = ["--pattern", pattern, "--piece", 24, "--count", 1001, "--repetitions", 2, "--file", tmp_path / "data"]
    measured = start(mpi, 3, "independent", *words)
    bound = start(mpi, 3, "bound", *words)
    assert measured["bytes"] == bound["bytes"] == 24 * 1001 * 3
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
    assert (tmp_path / "lines.jsonl").read_text().count("\n") == 7


def test_options_are_checked():
    with pytest.raises(SystemExit, match="option 'piece': expected one of"):
        independent.run(quick=True, options={"piece": "8"}, progress=lambda text: None)
