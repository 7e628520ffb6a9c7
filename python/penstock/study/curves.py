"""Pictures of the model studies: bars of estimates beside measurements, curves of the trade-off.  Knows the results' shape only."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(pyplot: Any, figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def bars(panels: Sequence[tuple[str, Sequence[str], Sequence[tuple[str, Sequence[float | None]]]]], path: Path) -> None:
    """A PNG with a panel for each (title, groups, [(series, a value for each group)]); None leaves a gap."""
    pyplot = _pyplot()
    figure, places = pyplot.subplots(
        1, len(panels), figsize=(5.2 * len(panels) + 1, 4.2), squeeze=False, layout="constrained"
    )
    for axes, (title, groups, series) in zip(places[0], panels, strict=True):
        width = 0.8 / len(series)
        for number, (name, values) in enumerate(series):
            at = [place + (number - (len(series) - 1) / 2) * width for place in range(len(groups))]
            axes.bar(at, [value or 0.0 for value in values], width=width, label=name)
        axes.set_xticks(range(len(groups)), groups, fontsize=7)
        axes.set_title(title, fontsize=9)
        axes.set_ylabel("seconds", fontsize=8)
        axes.tick_params(axis="y", labelsize=8)
        for edge in ("top", "right"):
            axes.spines[edge].set_visible(False)
        axes.legend(fontsize=7)
    _save(pyplot, figure, path)


def tradeoff(rows: Sequence[dict[str, Any]], caption: str, path: Path) -> None:
    """Shuffle cost and benefit over the message size, a panel for each device, as the paper's Figure 11."""
    pyplot = _pyplot()
    devices = list(dict.fromkeys(row["device"] for row in rows))
    figure, places = pyplot.subplots(
        1, len(devices), figsize=(3.6 * len(devices) + 1, 3.8), squeeze=False, layout="constrained"
    )
    lines = (
        ("shuffle_seconds", "shuffle cost", "o-"),
        ("benefit_seconds", "benefit: individual less collective", "s-"),
        ("file_benefit_seconds", "benefit without the shuffle", "^:"),
    )
    for axes, device in zip(places[0], devices, strict=True):
        mine = [row for row in rows if row["device"] == device]
        smallest = min(abs(row[name]) for row in mine for name, _, _ in lines if row[name]) if mine else 1e-6
        for name, text, style in lines:
            axes.plot(
                [row["message_bytes"] / 1024 for row in mine], [row[name] for row in mine], style, label=text, ms=3
            )
        axes.axhline(0, color="grey", linewidth=0.6)
        axes.set_xscale("log", base=2)
        axes.set_yscale("symlog", linthresh=max(smallest, 1e-9))
        axes.set_title(device, fontsize=9)
        axes.set_xlabel("message, KiB", fontsize=8)
        axes.tick_params(labelsize=7)
    places[0][0].set_ylabel("seconds of one iteration", fontsize=8)
    places[0][0].legend(fontsize=6)
    figure.supxlabel(caption, fontsize=7)
    _save(pyplot, figure, path)
