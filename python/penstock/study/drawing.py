"""Stacked bars of a breakdown, as figures 4 to 7 of the two-layer aggregation paper have them.  Knows the result's shape, not how it came about."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.study.breakdown import DIRECTIONS, PARTS
from penstock.study.tables import HEADINGS

Bars = list[tuple[str, dict[str, Any]]]  # labels and rows
Line = list[tuple[str, Bars]]  # of panels, with their titles
# Time in which nothing is moved: no colours of their own.
IDLE = {"wait": "lightgrey", "other": "grey"}


def _label_of_aggregators(row: dict[str, Any]) -> str:
    return f"{row['all_local_aggregators']}\n{row['label'].replace('_', ' ')}"


def lines_by_aggregators(rows: Sequence[dict[str, Any]]) -> list[Line]:
    """A line for each kernel, MPI and direction, a panel for each number of ranks; its bars over the local aggregators, two_phase last."""
    found: dict[tuple[Any, ...], dict[int, list[dict[str, Any]]]] = {}
    for row in rows:
        of_line = found.setdefault((row["kernel"], row["mpi"], DIRECTIONS.index(row["direction"])), {})
        of_line.setdefault(row["ranks"], []).append(row)
    lines = []
    for (kernel, mpi, direction), of_ranks in sorted(found.items()):
        line = []
        for ranks, mine in sorted(of_ranks.items()):
            mine.sort(key=lambda row: (row["all_local_aggregators"], row["strategy"] == "two_phase"))
            title = f"{kernel}, {HEADINGS[DIRECTIONS[direction]]}\n{ranks} ranks, {mine[0]['nodes']} nodes, {mpi}"
            line.append((title, [(_label_of_aggregators(row), row) for row in mine]))
        lines.append(line)
    return lines


def lines_by_ranks(rows: Sequence[dict[str, Any]]) -> list[Line]:
    """A line for each kernel, MPI and direction, a panel for each way to aggregate; its bars over the number of ranks."""
    found: dict[tuple[Any, ...], dict[int, list[dict[str, Any]]]] = {}
    for row in rows:
        of_line = found.setdefault((row["kernel"], row["mpi"], DIRECTIONS.index(row["direction"])), {})
        of_line.setdefault(row["local_aggregators"] or 1 << 30, []).append(row)  # two_phase last
    lines = []
    for (kernel, mpi, direction), of_way in sorted(found.items()):
        line = []
        for _, mine in sorted(of_way.items()):
            mine.sort(key=lambda row: row["ranks"])
            way = mine[0]["label"].replace("_", " ") + (" per node" if mine[0]["local_aggregators"] else "")
            title = f"{kernel}, {HEADINGS[DIRECTIONS[direction]]}\n{way}, {mpi}"
            line.append((title, [(str(row["ranks"]), row) for row in mine]))
        lines.append(line)
    return lines


def _draw_bars(axes: Any, bars: Bars, colours: Sequence[Any]) -> None:
    for place, (_, row) in enumerate(bars):
        bottom = 0.0
        for part, colour in zip(PARTS, colours, strict=True):
            value = row["seconds"][part.name]
            axes.bar(place, value, bottom=bottom, width=0.75, color=colour)
            bottom += value
    axes.set_xticks(range(len(bars)), [label for label, _ in bars], fontsize=7)
    axes.tick_params(axis="y", labelsize=8)
    for edge in ("top", "right"):
        axes.spines[edge].set_visible(False)


def draw(lines: Sequence[Line], axis: str, caption: str, path: Path) -> None:
    """Writes a PNG.  Panels in one line share their scale, so that bars can be compared."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import colormaps, pyplot
    from matplotlib.patches import Patch

    columns = max(len(line) for line in lines)
    width = max(7.0, 3.4 * columns + 1)
    figure, grid = pyplot.subplots(
        len(lines),
        columns,
        figsize=(width, 3.1 * len(lines) + 1.5),
        squeeze=False,
        sharey="row",
        layout="constrained",
    )
    work = [part.name for part in PARTS if part.name not in IDLE]
    hues = dict(zip(work, colormaps["tab10"](range(len(work))), strict=True))
    colours = [IDLE.get(part.name, hues.get(part.name)) for part in PARTS]
    for line, places in zip(lines, grid, strict=True):
        places[0].set_ylabel("seconds, mean over ranks", fontsize=8)
        for axes, (title, bars) in zip(places, line, strict=False):
            _draw_bars(axes, bars, colours)
            axes.set_title(title, fontsize=9)
            axes.set_xlabel(axis, fontsize=8)
        for axes in places[len(line) :]:
            axes.set_axis_off()
    handles = [Patch(color=colour, label=part.text) for part, colour in zip(PARTS, colours, strict=True)]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=8)
    figure.supxlabel(textwrap.fill(caption, int(15 * width)), fontsize=7)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def figures(result: dict[str, Any], prefix: Path) -> list[Path]:
    """PREFIX-aggregators.png and PREFIX-ranks.png.  Requires: some cells."""
    rows, caption = result["cells"], " ".join(result["notes"][:2])
    by_aggregators = prefix.with_name(f"{prefix.name}-aggregators.png")
    by_ranks = prefix.with_name(f"{prefix.name}-ranks.png")
    draw(lines_by_aggregators(rows), "local aggregators in all", caption, by_aggregators)
    draw(lines_by_ranks(rows), "ranks", caption, by_ranks)
    return [by_aggregators, by_ranks]
