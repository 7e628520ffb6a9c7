"""penstock explain and penstock predict: the cost model's answers as tables.  The questions are put together in penstock/explanation.py."""

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import explanation, machine, profiles, show
from penstock.commands import report as report_command
from penstock.explanation import Changes, Pattern
from penstock.failure import FINDINGS, USAGE, Failure
from penstock.profiles import Profile
from penstock.report import FileReport, Part, Report
from penstock.study.tables import Printer

LEFT_ALIGNED = ("", "way")
OTHER = "other"  # of a run: what the model has no term for


@dataclass(frozen=True)
class Described:
    """A pattern as options say it."""

    write: bool
    ranks: int
    nodes: int
    rank_bytes: int
    piece: int
    pattern: str
    collective: bool
    calls: int


SHAPES = ("interleaved", "blocks", "sparse")


def checked(
    read: bool, ranks: int, nodes: int, rank_bytes: str, piece: str, shape: str, independent: bool, calls: int
) -> Described:
    """Raises Failure (usage)."""
    if shape not in SHAPES:
        raise Failure(f"--shape {shape!r}: expected {', '.join(SHAPES)}", USAGE)
    if nodes > ranks:
        raise Failure(f"--nodes {nodes}: expected at most {ranks}, the number of --ranks", USAGE)
    sizes = size("--bytes", rank_bytes), size("--piece", piece)
    given = Described(not read, ranks, nodes, *sizes, shape, not independent, calls)
    if wrong := explanation.out_of_range(described(given, 1)):
        raise Failure(f"{wrong}; describe it with smaller --bytes, larger --piece or fewer --ranks", USAGE)
    return given


def size(option: str, text: str) -> int:
    """ "4k" -> 4096: powers of 1024."""
    units = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    number, unit = text.rstrip("kKmMgGtT"), text[len(text.rstrip("kKmMgGtT")) :].lower()
    try:
        value = int(number) * units[unit]
    except (ValueError, KeyError):
        value = 0
    if value < 1:
        raise Failure(
            f"{option} {text!r}: expected a number of bytes from 1 on, plain or with k, m, g or t behind it", USAGE
        )
    return value


def profile_of(name: str, directory: Path) -> Profile:
    """By name; else the one that was measured on this machine and the directory's file system, or the built-in one that fits it best."""
    if name:
        return profiles.load(name)
    place = machine.file_system(directory)
    found = profiles.find(machine.identity(), place.mount_point, place.kind, place.identifier)
    return found or profiles.built_in(machine.built_in_for(place))


def processors_of(given: int) -> int:
    return given or len(os.sched_getaffinity(0))


def described(given: Described, processors: int) -> Pattern:
    return explanation.described(
        write=given.write,
        ranks=given.ranks,
        nodes=given.nodes,
        processors=processors_of(processors),
        rank_bytes=given.rank_bytes,
        piece=given.piece,
        pattern=given.pattern,
        collective=given.collective,
        fresh=True,
        calls=given.calls,
    )


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{show.amount(number) if number > 99_999 else number} {noun}s"


def title(pattern: Pattern) -> str:
    kind = f"{'collective' if pattern.collective else 'independent'} {'write' if pattern.write else 'read'}"
    pieces = f"{show.amount(round(pattern.pieces))} piece{'s' if round(pattern.pieces) > 1 else ''}"
    return (
        f"{counted(pattern.calls, kind)} by {counted(pattern.ranks, 'rank')} on {counted(pattern.nodes, 'node')}: "
        f"{'each moves ' if pattern.calls > 1 else ''}{show.byte_amount(round(pattern.bytes))} of all ranks together, "
        f"in {pieces} of {show.byte_amount(round(pattern.bytes / pattern.pieces))}"
    )


def shown(value: float) -> str:
    return "-" if value == 0 else f"{value:.3g}"


def label(row: dict[str, Any]) -> str:
    if row["way"] == "two_layer":
        return f"two_layer, {row['local_per_node']} local a node, {row['aggregators']} global"
    return f"two_phase, {counted(row['aggregators'], 'aggregator')}" if row["way"] == "two_phase" else str(row["way"])


def print_answer(pattern: Pattern, answer: dict[str, Any], took: dict[str, Any] | None, printer: Printer) -> None:
    printer.say(title(pattern))
    names = [
        name
        for name in explanation.TERMS
        if any(row["terms"][name] for row in answer["candidates"]) or (took and took["terms"].get(name))
    ]
    if took and took["terms"].get(OTHER):
        names.append(OTHER)
    lines = []
    for place, row in sorted(enumerate(answer["candidates"]), key=lambda one: one[1]["seconds"]):
        low, high = row["interval"]
        mark = "chosen" if place == answer["chosen"] else ""
        lines.append(
            [
                label(row),
                mark,
                f"{row['seconds']:.3g}",
                f"{low:.2g} to {high:.2g}",
                *(shown(row["terms"].get(name, 0.0)) for name in names),
            ]
        )
    if took:
        lines.append(
            [
                f"{took['way'] or 'nothing'}, as it was",
                "measured",
                f"{took['seconds']:.3g}",
                "",
                *(shown(took["terms"].get(name, 0.0)) for name in names),
            ]
        )
    printer.table(("way", "", "seconds", "between", *names), lines, LEFT_ALIGNED)
    printer.say(answer["because"])


def explained(
    pattern: Pattern,
    profile: Profile,
    took: dict[str, Any] | None = None,
    changes: Changes | None = None,
    mapped: bool | None = None,
) -> dict[str, Any]:
    answer = explanation.predicted(pattern, profile, changes, mapped)
    rows, least = answer["candidates"], answer["least"]
    why = explanation.because(rows, least), explanation.instead(rows, least, answer["chosen"])
    return {
        "title": title(pattern),
        "pattern": pattern.work() | {"collective": pattern.collective, "calls": pattern.calls},
        **answer,
        "because": " ".join(text for text in why if text),
        "measured": took,
    }


def measured(part: Part, ranks: int) -> dict[str, Any]:
    terms = explanation.measured(part, ranks)
    return {"way": explanation.taken(part), "seconds": sum(terms.values()), "terms": terms}


def say_profile(profile: Profile) -> None:
    show.say(f"by {profile.said()}" + ("" if profile.measured else "; penstock calibrate measures this machine"))


def profile_for(file: FileReport, name: str) -> Profile:
    """The one that was asked for; else what the run went by, where it is still to be had, or what `profile_of` finds for the file's directory."""
    parent = Path(file.file).absolute().parent
    # The file's directory may be gone: then the file system that it was on, as far as its name is still there.
    directory = next((one for one in (parent, *parent.parents) if one.is_dir()), Path())
    if name or not file.profile:
        return profile_of(name, directory)
    try:
        return profile_of(file.profile, directory)
    except Failure:
        return profile_of("", directory)


def patterns_of(file: FileReport, processors: int, refused: list[str]) -> list[tuple[Pattern, Part]]:
    """Those that can be asked about; why others can not goes into `refused`."""
    patterns = []
    for pattern, part in explanation.of_report(file, processors_of(processors)):
        wrong = explanation.out_of_range(pattern)
        if wrong:
            refused.append(f"{file.file}: what it {'wrote' if pattern.write else 'read'} can not be predicted: {wrong}")
        else:
            patterns.append((pattern, part))
    return patterns


def ended(found: Report, path: Path, refused: list[str]) -> int:
    """Bad lines are findings, as of penstock report."""
    if not found.files:
        show.say(f"{path}: no file in this report")
    for text in refused:
        show.say(text)
    show.print_problems(found, str(path))
    return FINDINGS if found.problems or refused else 0


def explain_report(path: Path, name: str, processors: int, as_json: bool) -> int:
    found = report_command.read(path)
    answers = []
    refused: list[str] = []
    printer = Printer(sys.stdout)
    for file in found.files:
        patterns = patterns_of(file, processors, refused)
        profile = profile_for(file, name)
        rows = [explained(pattern, profile, measured(part, file.ranks)) for pattern, part in patterns]
        answers.append(
            {
                "file": file.file,
                "strategy": file.strategy,
                "profile": profile.name,
                "calls": rows,
            }
        )
        if as_json:
            continue
        printer.say(f"{file.file}: carried out by {file.strategy}; predicted by {profile.said()}")
        for (pattern, _), row in zip(patterns, rows, strict=True):
            print_answer(pattern, row, row["measured"], printer)
        if not file.bytes:
            printer.say("nothing was read or written")
    if as_json:
        show.print_json({"files": answers})
    return ended(found, path, refused)


def explain_pattern(given: Described, name: str, directory: Path, processors: int, as_json: bool) -> int:
    profile = profile_of(name, directory)
    pattern = described(given, processors)
    answer = explained(pattern, profile)
    if as_json:
        show.print_json(answer)
        return 0
    say_profile(profile)
    print_answer(pattern, answer, None, Printer(sys.stdout))
    return 0


def asked_for(change: Changes) -> str:
    values = (
        (change.ranks, "rank", ""),
        (change.nodes, "node", ""),
        (change.aggregators, "aggregator", ""),
        (change.local, "local aggregator", " a node"),
    )
    return ", ".join(f"{counted(value, noun)}{more}" for value, noun, more in values if value is not None)


def alternatives(
    base: Pattern, here: Profile, changes: list[Changes], names: list[str]
) -> list[tuple[str, Pattern, Profile, Changes]]:
    """As it is, and each change by itself."""
    rows = [("as it is", base, here, Changes())]
    for change in changes:
        pattern, text = explanation.changed(base, change), asked_for(change)
        if change.nodes is not None and pattern.nodes < change.nodes:
            text += f", {counted(pattern.nodes, 'rank')} on them"
        if explanation.candidates(pattern, change) and not (pattern.collective and pattern.ranks > 1):
            show.say(f"{text}: left out, since nothing is aggregated in {title(pattern).partition(':')[0]}")
            continue
        rows.append((text, pattern, here, change))
    for other in names:
        found = profiles.load(other)
        rows.append((f"on {found.name}", base, found, Changes()))
    return rows


Rows = Callable[[Pattern], list[tuple[str, Pattern, Profile, Changes]]]


def predict(base: Pattern, took: dict[str, Any] | None, rows: Rows, printer: Printer | None) -> dict[str, Any]:
    """`rows`: makes the alternatives of the pattern.  `took`: what a run of it took.  `printer`: none where the results are for a program."""
    answers: list[dict[str, Any]] = []
    cached: set[str] = set()
    correction = 1.0
    for text, pattern, profile, change in rows(base):
        if profile.figures["file.cached"] and profile.name not in machine.IN_MEMORY:
            cached.add(profile.name)
        answer = explained(pattern, profile, None, change)
        if not answers and took:
            correction = correction_of(answer, took)
        best = answer["candidates"][answer["chosen"]]
        seconds = best["seconds"] * correction
        answers.append(
            {
                "what": text,
                "profile": profile.name,
                "way": label(best),
                "seconds": seconds,
                "interval": [value * correction for value in best["interval"]],
                "times_faster": answers[0]["seconds"] / seconds if answers and seconds else 1.0,
            }
        )
    if printer:
        printer.say(title(base))
        printer.table(
            ("", "way", "seconds", "between", "times faster", "profile"), lines_of(answers), (*LEFT_ALIGNED, "profile")
        )
        if took:
            printer.say(
                f"corrected by what the run took: {took['seconds']:.3g} s, {correction:.3g} times what is predicted for it"
            )
        if len(cached) > 1:
            printer.say(
                f"{' and '.join(sorted(cached))}: a page cache stands before the device, so these are seconds until calls return, "
                "however slow the device behind it is"
            )
    return {"title": title(base), "measured": took, "correction": correction, "alternatives": answers}


def correction_of(answer: dict[str, Any], took: dict[str, Any]) -> float:
    """What the run really took, over what is predicted for the way it went: that carries over to what is asked about it."""
    alike = [row["seconds"] for row in answer["candidates"] if row["way"] == took["way"] and row["seconds"] > 0]
    return float(took["seconds"] / min(alike)) if alike and took["seconds"] > 0 else 1.0


def lines_of(answers: list[dict[str, Any]]) -> list[list[str]]:
    return [
        [
            one["what"],
            one["way"],
            f"{one['seconds']:.3g}",
            "{:.2g} to {:.2g}".format(*one["interval"]),
            f"{one['times_faster']:.3g}",
            one["profile"],
        ]
        for one in answers
    ]


def predict_report(
    path: Path, name: str, processors: int, changes: list[Changes], names: list[str], as_json: bool
) -> int:
    found = report_command.read(path)
    printer = None if as_json else Printer(sys.stdout)
    results = []
    refused: list[str] = []
    for file in found.files:
        patterns = patterns_of(file, processors, refused)
        if printer:
            printer.say(file.file)
        rows = functools.partial(alternatives, here=profile_for(file, name), changes=changes, names=names)
        answers = [predict(pattern, measured(part, file.ranks), rows, printer) for pattern, part in patterns]
        results.append({"file": file.file, "predictions": answers})
    if as_json:
        show.print_json({"files": results})
    return ended(found, path, refused)


def predict_pattern(
    given: Described,
    name: str,
    directory: Path,
    processors: int,
    changes: list[Changes],
    names: list[str],
    as_json: bool,
) -> int:
    rows = functools.partial(alternatives, here=profile_of(name, directory), changes=changes, names=names)
    result = predict(described(given, processors), None, rows, None if as_json else Printer(sys.stdout))
    if as_json:
        show.print_json(result)
    return 0
