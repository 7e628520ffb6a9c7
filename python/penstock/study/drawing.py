"""Stacked bars of a breakdown, as figures 4 to 7 of the two-layer aggregation paper have them.  Knows the result's shape, not how it came about."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.study.breakdown import DIRECTIONS, PARTS
from penstock.study.tables import HEADINGS

# Time in which nothing is moved: no colours of their own.
IDLE = {"wait": "lightgrey", "other": "grey"}


def _label_of_aggregators(row: dict[str, Any]) -> str:
    return f"{row['all_local_aggregators']}\n{row['label'].replace('_', ' ')}"


def panels_by_aggregators(rows: Sequence[dict[str, Any]]) -> list[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """A panel for each kernel, direction, MPI and number of ranks; its bars over the number of local aggregators, two_phase last."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = (row["kernel"], row["mpi"], DIRECTIONS.index(row["direction"]), row["ranks"])
        found.setdefault(key, []).append(row)
    panels = []
    for (kernel, mpi, direction, ranks), mine in sorted(found.items()):
        mine.sort(key=lambda row: (row["all_local_aggregators"], row["strategy"] == "two_phase"))
        title = f"{kernel}, {HEADINGS[DIRECTIONS[direction]]}\n{ranks} ranks, {mine[0]['nodes']} nodes, {mpi}"
        panels.append((title, [(_label_of_aggregators(row), row) for row in mine]))
    return panels


def panels_by_ranks(rows: Sequence[dict[str, Any]]) -> list[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """A panel for each kernel, direction, MPI and way to aggregate; its bars over the number of ranks."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        way = row["local_aggregators"] or 1 << 30  # two_phase last
        found.setdefault((row["kernel"], row["mpi"], DIRECTIONS.index(row["direction"]), way), []).append(row)
    panels = []
    for (kernel, mpi, direction, _), mine in sorted(found.items()):
        mine.sort(key=lambda row: row["ranks"])
        way = mine[0]["label"].replace("_", " ") + (" per node" if mine[0]["local_aggregators"] else "")
        title = f"{kernel}, {HEADINGS[DIRECTIONS[direction]]}\n{way}, {mpi}"
        panels.append((title, [(str(row["ranks"]), row) for row in mine]))
    return panels


def draw(
    panels: Sequence[tuple[str, list[tuple[str, dict[str, Any]]]]], axis: str, caption: str, columns: int, path: Path
) -> None:
    """Writes a PNG.  Panels in one row of the figure share their scale, so that bars can be compared."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import colormaps, pyplot
    from matplotlib.patches import Patch

    columns = max(1, min(columns, len(panels)))
    lines = -(-len(panels) // columns)
    width = max(7.0, 3.4 * columns + 1)
    figure, grid = pyplot.subplots(
        lines, columns, figsize=(width, 3.1 * lines + 1.5), squeeze=False, sharey="row", layout="constrained"
    )
    work = [part.name for part in PARTS if part.name not in IDLE]
    hues = dict(zip(work, colormaps["tab10"](range(len(work))), strict=True))
    colours = [IDLE.get(part.name, hues.get(part.name)) for part in PARTS]
    for index in range(lines * columns):
        axes = grid[index // columns][index % columns]
        if index >= len(panels):
            axes.set_axis_off()
            continue
        title, bars = panels[index]
        for place, (_, row) in enumerate(bars):
            bottom = 0.0
            for part, colour in zip(PARTS, colours, strict=True):
                value = row["seconds"][part.name]
                axes.bar(place, value, bottom=bottom, width=0.75, color=colour)
                bottom += value
        axes.set_xticks(range(len(bars)), [label for label, _ in bars], fontsize=7)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(axis, fontsize=8)
        axes.tick_params(axis="y", labelsize=8)
        if index % columns == 0:
            axes.set_ylabel("seconds, mean over ranks", fontsize=8)
        for edge in ("top", "right"):
            axes.spines[edge].set_visible(False)
    handles = [Patch(color=colour, label=part.text) for part, colour in zip(PARTS, colours, strict=True)]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=8)
    figure.supxlabel(textwrap.fill(caption, int(15 * width)), fontsize=7)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def figures(result: dict[str, Any], prefix: Path) -> list[Path]:
    """PREFIX-aggregators.png and PREFIX-ranks.png."""
    rows = result["cells"]
    caption = " ".join(result["notes"][:2])
    per_kernel = len({row["ranks"] for row in rows})
    ways = len({row["local_aggregators"] for row in rows})
    by_aggregators = prefix.with_name(f"{prefix.name}-aggregators.png")
    by_ranks = prefix.with_name(f"{prefix.name}-ranks.png")
    draw(panels_by_aggregators(rows), "local aggregators in all", caption, per_kernel, by_aggregators)
    draw(panels_by_ranks(rows), "ranks", caption, ways, by_ranks)
    return [by_aggregators, by_ranks]
