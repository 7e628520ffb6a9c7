"""A study's result as sheets for people and as panels of bars.  Knows the result's shape, not how it came about."""

import textwrap
from pathlib import Path
from typing import IO, Any

from penstock import show


def print_result(result: dict[str, Any], stream: IO[str]) -> None:
    console = show.console_on(stream)
    for kind, text in result["devices"].items():
        console.print(show.printable(f"{kind}: {text}"))
    for sheet in result["tables"]:
        console.print()
        console.print(show.printable(sheet["title"]))
        show.print_table(console, sheet["headings"], sheet["lines"], sheet["headings"][:1])
    for fact in result["paper"]:
        console.print(show.printable(f"The paper, {fact['where']}: {fact['text']}."))
    for note in result["notes"]:
        console.print(show.printable(note))


def _draw(axes: Any, panel: dict[str, Any], colours: Any) -> None:
    groups, series = panel["groups"], panel["series"]
    width = 0.75 if panel["stacked"] else 0.8 / max(1, len(series))
    below = [0.0] * len(groups)
    for index, (label, values) in enumerate(series):
        heights = [value or 0.0 for value in values]
        shift = 0.0 if panel["stacked"] else (index - (len(series) - 1) / 2) * width
        places = [place + shift for place in range(len(groups))]
        axes.bar(
            places,
            heights,
            width=width,
            bottom=below if panel["stacked"] else None,
            label=label,
            color=colours[index % len(colours)],
        )
        if panel["stacked"]:
            below = [low + height for low, height in zip(below, heights, strict=True)]
    axes.set_xticks(range(len(groups)), groups, fontsize=8)
    axes.tick_params(axis="y", labelsize=8)
    axes.set_title(textwrap.fill(panel["title"], 48), fontsize=8)
    axes.legend(fontsize=7)
    for edge in ("top", "right"):
        axes.spines[edge].set_visible(False)


def figure(result: dict[str, Any], prefix: Path) -> list[Path]:
    """PREFIX.png: the panels, and under them what the paper found.  Requires: some panels."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import colormaps, pyplot

    panels = result["panels"]
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    drawn, grid = pyplot.subplots(
        lines, columns, figsize=(6.2 * columns, 3.3 * lines + 1.4), squeeze=False, layout="constrained"
    )
    colours = colormaps["tab10"](range(10))
    places = list(grid.flat)
    for axes, panel in zip(places, panels, strict=False):
        _draw(axes, panel, colours)
        axes.set_ylabel(result["unit"], fontsize=8)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    caption = " ".join(f"The paper, {fact['where']}: {fact['text']}." for fact in result["paper"])
    drawn.supxlabel(textwrap.fill(caption, 95 * columns), fontsize=7)
    path = prefix.with_name(f"{prefix.name}.png")
    drawn.savefig(path, dpi=110)
    pyplot.close(drawn)
    return [path]
