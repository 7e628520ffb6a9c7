#!/usr/bin/env python3
"""The demonstration: the climate kernel natively and under Penstock, files compared byte for byte, a table and a picture.

Reads the kernel's files and its line of JSON; knows nothing of Penstock but `bin/penstock run`.  Exits 1 when files differ.
"""

import argparse
import base64
import contextlib
import html
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import launching  # noqa: E402

PHASES = ("open", "view", "write", "sync", "close", "read", "read_shifted")
ARMS = ("native", "penstock")
TIMEOUT_SECONDS = 600.0


@dataclass
class Case:
    """One kernel run for each arm: what was asked, what came out."""

    mpi: launching.Mpi
    ranks: int
    map: Path | None
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    problem: str = ""
    identical: bool = False

    def mesh_name(self) -> str:
        return self.map.stem if self.map else "cubed sphere"

    def good(self) -> bool:
        return self.identical and not self.problem and all(result["verified"] for result in self.results.values())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Runs the climate kernel natively and under Penstock and compares the files."
    )
    parser.add_argument("--build", type=Path, default=launching.default_build(), help="build directory (build/release)")
    parser.add_argument(
        "--output",
        type=Path,
        default=ROOT / "results" / "demo",
        help="where the picture and the page go (results/demo)",
    )
    parser.add_argument(
        "--maps", type=Path, help="directory with decomposition maps map_*.nc (../shared/data/e3sm when there)"
    )
    parser.add_argument("--mpi", action="append", default=[], help="only this MPI; may be repeated")
    parser.add_argument("--ranks", type=int, default=4, help="ranks of each run (4)")
    parser.add_argument("--ne", type=int, default=16, help="elements along an edge of the cubed sphere (16)")
    parser.add_argument("--levels", type=int, default=16, help="levels of 3-D variables (16)")
    parser.add_argument(
        "--scratch", type=Path, help="where the data files go while they are needed (a temporary directory)"
    )
    wanted = parser.parse_args()
    if wanted.maps is None:
        beside = ROOT.parent / "shared" / "data" / "e3sm"
        wanted.maps = beside if beside.is_dir() else None
    elif not wanted.maps.is_dir():
        parser.error(f"--maps {wanted.maps}: expected a directory with map_*.nc")
    return wanted


def say(text: str) -> None:
    print(f"demo: {text}", file=sys.stderr, flush=True)


# Runs


def kernel_words(case: Case, wanted: argparse.Namespace, file: Path) -> list[str | Path | int]:
    words: list[Any] = [case.mpi.program("e3sm"), "--json", "--keep", "--file", file]
    return [*words, "--map", case.map] if case.map else [*words, "--ne", wanted.ne, "--levels", wanted.levels]


def run_arm(case: Case, arm: str, wanted: argparse.Namespace, scratch: Path) -> None:
    file = scratch / f"{case.mpi.name}-{case.mesh_name().replace(' ', '-')}-{arm}.data"
    line = launching.line(case.mpi, case.ranks, kernel_words(case, wanted, file))
    if arm == "penstock":
        line = [str(ROOT / "bin" / "penstock"), "run", *line]
    environment = launching.environment(case.mpi, case.ranks)
    # The demonstration shows the tree it was told of, whichever that is.
    environment["PENSTOCK_LIBDIR"] = str((wanted.build / "lib").resolve())
    case.results[arm] = launching.result(line, environment, TIMEOUT_SECONDS)
    case.files[arm] = file


def same_bytes(one: Path, other: Path) -> bool:
    chunk_bytes = 1 << 20
    with one.open("rb") as left, other.open("rb") as right:
        while True:
            mine, theirs = left.read(chunk_bytes), right.read(chunk_bytes)
            if mine != theirs:
                return False
            if not mine:
                return True


def run_case(case: Case, wanted: argparse.Namespace, scratch: Path) -> None:
    say(f"{case.mpi.name}, {case.ranks} ranks, {case.mesh_name()}")
    for arm in ARMS:
        try:
            run_arm(case, arm, wanted, scratch)
        except launching.LaunchFailure as failure:
            case.problem = f"{arm}: {failure}"
            say(case.problem)
            return
    case.identical = same_bytes(case.files["native"], case.files["penstock"])


def cases(wanted: argparse.Namespace) -> Iterator[Case]:
    maps: list[Path | None] = [None, *(sorted(wanted.maps.glob("map_*.nc")) if wanted.maps else [])]
    for mpi in launching.installed(wanted.build, wanted.mpi):
        if not mpi.program("e3sm").is_file():
            say(f"{mpi.program('e3sm')} is not there: {mpi.name} is left out; build again")
            continue
        for path in maps:
            yield Case(mpi, wanted.ranks, path)


# Table


HEADINGS = ("MPI", "mesh", "ranks", "calls", "pieces", "MB", "native s", "Penstock s", "ratio", "files")


def phase_seconds(result: dict[str, Any], phase: str) -> float:
    """The kernel gives a figure for each repetition; the demonstration runs one."""
    return float(sum(result["seconds"][phase]))


def transfer_seconds(result: dict[str, Any]) -> float:
    return sum(phase_seconds(result, phase) for phase in PHASES)


def row(case: Case) -> list[str]:
    if case.problem:
        return [case.mpi.name, case.mesh_name(), str(case.ranks), *[""] * 6, "FAILED"]
    native, own = (case.results[arm] for arm in ARMS)
    seconds = [transfer_seconds(result) for result in (native, own)]
    verdict = "identical" if case.good() else "WRONG" if case.identical else "DIFFERENT"
    moved = (native["bytes_written"] + native["bytes_read"]) / 1e6
    return [
        case.mpi.name,
        case.mesh_name(),
        str(case.ranks),
        str(native["calls"]),
        str(native["pieces"]),
        f"{moved:.1f}",
        f"{seconds[0]:.3f}",
        f"{seconds[1]:.3f}",
        f"{seconds[0] / seconds[1]:.2f}",
        verdict,
    ]


def print_table(done: list[Case]) -> None:
    rows = [list(HEADINGS), *(row(case) for case in done)]
    widths = [max(len(line[column]) for line in rows) for column in range(len(HEADINGS))]
    for line in rows:
        cells = [
            text.ljust(width) if column < 2 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


# Picture


def read_variable(file: Path, name: str) -> Any:
    """A variable of the first record, found by the header at the beginning of the kernel's file."""
    import numpy

    with file.open("rb") as opened:
        header = json.loads(opened.readline())
        for variable in header["variables"]:
            if variable["name"] == name:
                count = int(numpy.prod(variable["shape"]))
                opened.seek(header["header_bytes"] + variable["offset"])
                values = numpy.fromfile(opened, dtype=numpy.dtype(variable["type"]), count=count)
                return values.reshape(variable["shape"])
    raise KeyError(f"{file}: no variable {name}; there are {', '.join(v['name'] for v in header['variables'])}")


def draw_sphere(axes: Any, longitude: Any, latitude: Any, values: Any, **style: Any) -> Any:
    """The half of the sphere that faces us, each column a dot, seen from 25 degrees north."""
    import numpy

    east, north = numpy.radians(longitude), numpy.radians(latitude)
    x, y, z = numpy.cos(north) * numpy.sin(east), numpy.sin(north), numpy.cos(north) * numpy.cos(east)
    tilt = numpy.radians(25.0)
    up, towards = y * numpy.cos(tilt) - z * numpy.sin(tilt), y * numpy.sin(tilt) + z * numpy.cos(tilt)
    seen = towards > 0
    # Dots that just touch: the columns in sight share the area of a disc of about 3.2 inches, in square points, with some overlap.
    disc_points = 3.14 * (1.6 * 72) ** 2
    size = 2.0 * disc_points / max(1, int(seen.sum()))
    drawn = axes.scatter(x[seen], up[seen], c=values[seen], s=size, linewidths=0, **style)
    axes.set_aspect("equal")
    axes.set_axis_off()
    return drawn


def draw_bars(axes: Any, done: list[Case]) -> None:
    """Seconds by phase, stacked: native and Penstock side by side for each run."""
    from matplotlib import colormaps

    colours = dict(zip(PHASES, colormaps["tab10"](range(len(PHASES))), strict=True))
    places = []
    for index, case in enumerate(done):
        for side, arm in enumerate(ARMS):
            place, bottom = index * 2.6 + side, 0.0
            places.append((place, arm))
            for phase in PHASES:
                seconds = phase_seconds(case.results[arm], phase)
                label = phase.replace("_", " ") if index == 0 and side == 0 else None
                axes.bar(place, seconds, bottom=bottom, width=0.9, color=colours[phase], label=label)
                bottom += seconds
        axes.text(
            index * 2.6 + 0.5,
            -0.16,
            f"{case.mpi.name}\n{case.mesh_name()}",
            ha="center",
            va="top",
            fontsize=8,
            transform=axes.get_xaxis_transform(),
        )
    axes.set_xticks([place for place, _ in places], [arm for _, arm in places], fontsize=7, rotation=30)
    axes.set_ylabel("seconds (slowest rank)")
    axes.legend(fontsize=8, ncols=2)
    axes.set_title("Seconds by phase", fontsize=11)
    for edge in ("top", "right"):
        axes.spines[edge].set_visible(False)


def picture(done: list[Case], shown: Case) -> bytes:
    """A PNG: the field as it was read back from the file that Penstock wrote, the ranks' domains, the seconds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    file = shown.files["penstock"]
    latitude, longitude = read_variable(file, "lat"), read_variable(file, "lon")
    domain, flat, deep = (read_variable(file, name) for name in ("domain", "field_0", "field_3"))
    level = len(deep) // 2
    fields = (("field_0, read from the file", flat), (f"field_3, level {level} of {len(deep)}", deep[level]))
    figure = pyplot.figure(figsize=(13, 8.4), layout="constrained")
    grid = figure.add_gridspec(2, 3, height_ratios=(1, 1.05))
    for column, (title, values) in enumerate(fields):
        axes = figure.add_subplot(grid[0, column])
        drawn = draw_sphere(axes, longitude, latitude, values, cmap="viridis")
        axes.set_title(title, fontsize=11)
        figure.colorbar(drawn, ax=axes, shrink=0.7)
    axes = figure.add_subplot(grid[0, 2])
    draw_sphere(axes, longitude, latitude, domain, cmap="tab20", vmin=0, vmax=max(19, domain.max()))
    axes.set_title(f"domains of {shown.ranks} ranks along the space-filling curve", fontsize=11)
    draw_bars(figure.add_subplot(grid[1, :]), done)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    pyplot.close(figure)
    return buffer.getvalue()


# Page


STYLE = """body{font:16px/1.5 sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}
img{max-width:100%}table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:1em 0}
th,td{padding:.3em .7em;border-bottom:1px solid #ccc;text-align:right}th:first-child,td:first-child{text-align:left}
.bad{color:#b00;font-weight:bold}"""


def html_table(headings: list[str], rows: list[list[str]]) -> str:
    def line(texts: list[str], tag: str) -> str:
        cells = (f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)
        return f"<tr>{''.join(cells)}</tr>"

    return f"<table>{line(headings, 'th')}{''.join(line(texts, 'td') for texts in rows)}</table>"


def phase_rows(done: list[Case]) -> list[list[str]]:
    return [
        [
            f"{case.mpi.name}, {case.mesh_name()}",
            arm,
            *(f"{phase_seconds(case.results[arm], phase):.4f}" for phase in PHASES),
        ]
        for case in done
        for arm in ARMS
        if arm in case.results
    ]


def page(done: list[Case], image: bytes | None) -> str:
    good = all(case.good() for case in done)
    verdict = (
        "All files are byte for byte the same, natively and under Penstock."
        if good
        else "Some files differ or runs failed."
    )
    shown = (
        f'<img alt="The field on the cubed sphere, the ranks\' domains, seconds by phase" src="data:image/png;base64,{base64.b64encode(image).decode()}">'
        if image
        else ""
    )
    problems = "".join(
        f"<p class=bad>{html.escape(f'{case.mpi.name}, {case.mesh_name()}: {case.problem}')}</p>"
        for case in done
        if case.problem
    )
    phases = html_table(["run", "", *(phase.replace("_", " ") for phase in PHASES)], phase_rows(done))
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Penstock demonstration</title><style>{STYLE}</style>"
        f"<h1>A climate kernel, natively and under Penstock</h1><p class={'good' if good else 'bad'}>{verdict}</p>{shown}{problems}"
        f"<h2>Runs</h2>{html_table(list(HEADINGS), [row(case) for case in done])}"
        f"<h2>Seconds by phase</h2><p>Of the slowest rank; native and Penstock ran one after the other on the same machine.</p>{phases}</html>\n"
    )


def write_outputs(done: list[Case], output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    complete = [case for case in done if not case.problem]
    shown = next((case for case in complete if case.map is None), None)
    image = picture(complete, shown) if shown else None
    if image:
        (output / "demo.png").write_bytes(image)
    (output / "demo.html").write_text(page(done, image))
    results = [
        {
            "mpi": case.mpi.name,
            "mesh": case.mesh_name(),
            "identical": case.identical,
            "problem": case.problem,
            **case.results,
        }
        for case in done
    ]
    (output / "demo.json").write_text(json.dumps(results, indent=1) + "\n")
    say(f"{output / 'demo.html'} has the picture and the tables")


def main() -> int:
    wanted = arguments()
    if not launching.default_library(wanted.build).is_file():
        say(f"{launching.default_library(wanted.build)} is not there: build first (make build)")
        return 1
    with contextlib.ExitStack() as stack:
        scratch = wanted.scratch or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-demo-")))
        scratch.mkdir(parents=True, exist_ok=True)
        done = list(cases(wanted))
        if not done:
            say("there is no MPI to run the kernel with")
            return 1
        for case in done:
            run_case(case, wanted, scratch)
        print_table(done)
        write_outputs(done, wanted.output)
    return 0 if all(case.good() for case in done) else 1


if __name__ == "__main__":
    sys.exit(main())
