"""penstock study: measures a figure of a paper again and shows it as tables and pictures.  The measuring is in penstock/study/."""

import datetime
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import machine, paths, profiles, show
from penstock.commands.bench import check_place, save
from penstock.ending import terminated_as_interrupted
from penstock.failure import FINDINGS, USAGE, Failure
from penstock.study import measured_model, model_tables, paper, tables, tam


def numbers(option: str, text: str) -> tuple[int, ...]:
    """ "4,8" -> (4, 8), ascending, each once."""
    try:
        found = sorted({int(word) for word in text.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1:
        raise Failure(f"{option} {text!r}: expected whole numbers from 1 on with commas between", USAGE)
    return tuple(found)


def words(given: list[str]) -> tuple[str, ...]:
    """Options that may be repeated or have commas."""
    return tuple(dict.fromkeys(word for text in given for word in text.split(",") if word))


def prefix_of(given: Path | None, name: str) -> Path:
    """Where results go.  Raises Failure when they can not: before anything is measured."""
    stamp = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S")
    prefix = given or paths.results_directory() / stamp / name
    check_place(prefix.with_name(f"{prefix.name}.json"))
    return prefix


def drawn(prefix: Path, figures: Callable[[], list[Path]]) -> list[Path]:
    """The pictures; none, and a sentence, where there is nothing to draw them with."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        show.say("matplotlib is not installed: no pictures")
        return []
    try:
        return figures()
    except OSError as error:
        raise Failure(f"{prefix}: the pictures can not be written: {error.strerror}") from error


def draw(result: dict[str, Any], prefix: Path) -> list[Path]:
    from penstock.study import drawing

    return drawn(prefix, lambda: drawing.figures(result, prefix))


def run_tam(wanted: tam.Wanted, prefix: Path | None, as_json: bool) -> int:
    prefix = prefix_of(prefix, "tam")
    with terminated_as_interrupted():
        result = tam.run(wanted, show.say)
    written = [prefix.with_name(f"{prefix.name}.json")]
    save(result, written[0])
    if result["cells"]:
        written += draw(result, prefix)
    if as_json:
        show.print_json(result)
    else:
        tables.print_result(result, sys.stdout)
    show.say(f"saved in {', '.join(map(str, written))}")
    for text in result["findings"]:
        show.say(f"not as it must be: {text}")
    for name, text in result["failures"].items():
        show.say(f"{name} failed: {text}")
    return FINDINGS if result["findings"] or result["failures"] or result["interrupted"] else 0


# The cost model of collective I/O


def default_profile(directory: Path, host: str | None = None) -> profiles.Profile:
    """The one that was measured on this machine, or one of that name, and the directory's file system; else a built-in one."""
    place = machine.file_system(directory, "--directory")
    found = profiles.find(machine.identity(host), place.mount_point, place.kind, place.identifier)
    return found or profiles.built_in(machine.built_in_for(place))


def model_figures(result: dict[str, Any], prefix: Path) -> list[Path]:
    from penstock.study import curves

    path = prefix.with_name(f"{prefix.name}.png")
    panels = []
    for table in ("V", "VI"):
        rows = [row for row in result["cells"] if row["table"] == table]
        series = [
            (text, [row[name] for row in rows])
            for name, text in (
                ("printed_seconds", "estimate, printed"),
                ("computed_seconds", "estimate, computed"),
                ("measured_seconds", "measured, printed"),
            )
        ]
        panels.append((f"Table {table}", [f"{row['device']}\n{row['access']}" for row in rows], series))
    if result.get("here") and result["here"]["cells"]:
        rows = result["here"]["cells"]
        series = [
            (text, [row[name] for row in rows])
            for name, text in (
                ("paper_seconds", "paper's model"),
                ("penstock_seconds", "Penstock's model"),
                ("measured_seconds", "measured"),
            )
        ]
        groups = [f"{row['direction']}\n{row['access'][:5]}\nx{row['ranks']}" for row in rows]
        panels.append(("measured here", groups, series))
    curves.bars(panels, path)
    return [path]


def model_notes(rows: list[dict[str, Any]], errors: dict[str, float]) -> list[str]:
    unexplained = [f"Table {row['table']}, {row['device']}, {row['access']}" for row in rows if not row["same_digits"]]
    doubtful = [
        f"{row['printed_error_percent']:g} % where its times give {row['error_percent']:.2f} % (Table {row['table']}, {row['device']}, {row['access']})"
        for row in rows
        if not row["same_error"]
    ]
    return [
        f"No assumption gives the printed digits of: {'; '.join(unexplained) or 'none'}.",
        f"Errors in brackets that differ from their times: {'; '.join(doubtful) or 'none'}.",
        f"The paper's mean error is {errors['printed_mean_percent']:.3f} % of the brackets (4.93 % in its text) and {errors['mean_percent']:.3f} % of its times; "
        f"the worst {errors['printed_worst_percent']:g} % and {errors['worst_percent']:.2f} %.",
    ]


def finish(result: dict[str, Any], prefix: Path, figures: list[Path], as_json: bool) -> None:
    """`figures` are there already; the JSON goes beside them."""
    written = prefix.with_name(f"{prefix.name}.json")
    save(result, written)
    if as_json:
        show.print_json(result)
    show.say(f"saved in {', '.join(map(str, [written, *figures]))}")


def check_bed(name: str) -> None:
    """Raises Failure when the bed that was asked for is not up: before every run of the study fails for it.  No name: none was."""
    if name:
        from penstock.testbed import bed

        bed.live(name)


def made(prefix: Path) -> None:
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{prefix.parent}: the directory can not be made: {error.strerror}") from error


def run_model(wanted: measured_model.Wanted | None, profile: str, prefix: Path | None, as_json: bool) -> int:
    """The paper's tables; with `wanted`, measured here too.  An estimate that came out differently than before is a finding."""
    prefix = prefix_of(prefix, "model")
    rows = paper.cells()
    errors = paper.errors(rows)
    result: dict[str, Any] = {"study": "model", "cells": rows, "errors": errors, "notes": model_notes(rows, errors)}
    if wanted is not None:
        check_bed(wanted.bed)
        chosen = (
            profiles.load(profile) if profile else default_profile(wanted.directory, "node0" if wanted.bed else None)
        )
        with terminated_as_interrupted():
            result["here"] = measured_model.run(wanted, chosen, show.say)
    made(prefix)
    figures = drawn(prefix, lambda: model_figures(result, prefix))
    if not as_json:
        model_tables.print_model(result, sys.stdout)
    finish(result, prefix, figures, as_json)
    here = result.get("here", {})
    for name, text in here.get("failures", {}).items():
        show.say(f"{name} failed: {text}")
    as_expected = all(row["same_digits"] == row["explained"] for row in rows)
    return 0 if as_expected and not here.get("failures") and not here.get("interrupted") else FINDINGS


def tradeoff_devices(profile: profiles.Profile, nodes: int, per_node: int) -> list[tuple[str, Any]]:
    """The calibrated machine as one device; requests are as large as the message, of an aggregator or of a rank."""
    processors = len(os.sched_getaffinity(0)) * nodes

    def platform(size: int) -> dict[str, float]:
        return paper.platform_of(profile, nodes > 1, nodes, nodes * per_node, processors, size, size)

    return [(profile.name, platform)]


def paper_devices() -> list[tuple[str, Any]]:
    def constant(device: dict[str, Any]) -> Callable[[int], dict[str, float]]:
        return lambda _: paper.platform_of_paper(device)

    return [(device["name"], constant(device)) for device in paper.printed()["device"]]


def run_tradeoff(profile: str, nodes: int, per_node: int, prefix: Path | None, as_json: bool) -> int:
    prefix = prefix_of(prefix, "tradeoff")
    if profile:
        chosen = profiles.load(profile)
        devices, source = tradeoff_devices(chosen, nodes, per_node), chosen.said()
    else:
        devices, source = paper_devices(), "the paper's parameters"
    rows = paper.tradeoff(devices, nodes, per_node)
    as_printed = not profile and (nodes, per_node) == (4, 4)
    notes = [
        f"With {source}: one iteration on {nodes} nodes of {per_node} ranks, in which each node's aggregator accesses one message.",
        "Benefit is individual less collective seconds, as the paper defines it; the shuffle is in it. Where it exceeds the shuffle, collective access pays "
        "by the paper's reading; where it is positive, it is faster.",
    ]
    result = {
        "study": "tradeoff",
        "source": source,
        "nodes": nodes,
        "ranks_per_node": per_node,
        "cells": rows,
        "statements": paper.statements(rows) if as_printed else [],
        "notes": notes,
    }
    made(prefix)
    picture = prefix.with_name(f"{prefix.name}.png")

    def figures() -> list[Path]:
        from penstock.study import curves

        curves.tradeoff(rows, notes[0], picture)
        return [picture]

    drawings = drawn(prefix, figures)
    if not as_json:
        model_tables.print_tradeoff(result, sys.stdout)
    finish(result, prefix, drawings, as_json)
    return 0
