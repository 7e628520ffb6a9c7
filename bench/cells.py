"""What the benchmarks share: options, storages, launches that keep their lines, spreads, ratios, targets.

Knows nothing of what any benchmark measures.  bench/README.md says what each figure means.
"""

import datetime
import json
import math
import os
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import launching

MEBIBYTE = 1 << 20
NATIVE, PENSTOCK, BOUND = "native", "penstock", "bound"
OPERATIONS = ("write", "read")
SECONDS_MOST = 1e6
WAYS = ("map", "piece", "shared")

Progress = Callable[[str], object]


def readable(size_bytes: int) -> str:
    return f"{size_bytes // MEBIBYTE}MiB" if size_bytes >= MEBIBYTE else f"{size_bytes}B"


# Options


def true(value: Any) -> bool:
    return str(value).lower() in ("1", "true", "yes", "on")


def words_of(value: Any) -> list[str]:
    """A list as it comes from Python, or text with commas between."""
    words = value.split(",") if isinstance(value, str) else list(value)
    return [str(word) for word in words if word]


def refuse_unknown(options: Mapping[str, Any], known: Iterable[str]) -> None:
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise SystemExit(f"option {unknown[0]!r}: expected one of {', '.join(sorted(known))}")


def choices(options: dict[str, Any], key: str, known: tuple[Any, ...], default: tuple[Any, ...]) -> tuple[Any, ...]:
    """Some of the known values, in their order."""
    if key not in options:
        return default
    kind = type(known[0])
    try:
        wanted = [kind(word) for word in words_of(options[key])]
    except ValueError:
        wanted = []
    unknown = [value for value in wanted if value not in known]
    if unknown or not wanted:
        raise SystemExit(f"{key}={options[key]}: expected some of {', '.join(map(str, known))}")
    return tuple(value for value in known if value in wanted)


def numbers(options: dict[str, Any], key: str, default: str) -> tuple[int, ...]:
    text = options.get(key, default)
    try:
        numbers = tuple(int(word) for word in words_of(text))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise SystemExit(f"{key}={text}: expected whole numbers of at least 1, with commas between")
    return numbers


def seconds(options: dict[str, Any], key: str, default: float) -> float:
    text = str(options.get(key, default))
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < SECONDS_MOST:
        raise SystemExit(f"{key}={text}: expected seconds, above 0 and below {SECONDS_MOST:g}")
    return value


def library_of(options: Mapping[str, Any], build: Path) -> Path | None:
    """None: native against native, to see the noise."""
    if true(options.get("native_only", "")):
        return None
    library = Path(options.get("library", launching.default_library(build))).resolve()
    if not library.is_file():
        raise SystemExit(
            f"{library}: not there; build Penstock first, or set native_only=1 to compare native with native"
        )
    return library


def _top() -> Path:
    return launching.ROOT if (launching.ROOT / "CMakeLists.txt").is_file() else Path.cwd()


def _file_system(directory: Path) -> str:
    """The type of the file system a directory is on, as /proc/mounts names it."""
    best = ("", "unknown")
    for mount in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, *_ = mount.split()
        point = point.replace("\\040", " ")
        if (directory == Path(point) or Path(point) in directory.parents) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def storages(chosen: str) -> dict[str, Path]:
    """Directories to measure in, by the name of their file system; those of the same kind get a number."""
    directories = [Path(word) for word in chosen.split(",")] if chosen else [Path("/dev/shm"), _top()]
    found: dict[str, Path] = {}
    for directory in directories:
        if not directory.is_dir() or not os.access(directory, os.W_OK):
            if chosen:
                raise SystemExit(f"directories={directory}: expected a directory that can be written")
            continue
        kind = _file_system(directory.resolve())
        name = kind if kind not in found else f"{kind}-{len(found) + 1}"
        found[name] = directory.resolve()
    return found


def lines_file(name: str) -> Path:
    return _top() / "results" / datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S") / f"{name}.jsonl"


# Launches


@contextmanager
def scratch(directory: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=directory) as name:
        yield Path(name) / "data"


class Launcher:
    """Runs programs and keeps every line of JSON that they print."""

    def __init__(self, lines: Path, timeout_seconds: float) -> None:
        self.lines = lines
        self.timeout_seconds = timeout_seconds
        lines.parent.mkdir(parents=True, exist_ok=True)

    def launch(
        self,
        mpi: launching.Mpi,
        ranks: int,
        words: Sequence[str | Path | int],
        preload: Path | None,
        keep: Mapping[str, Any],
        changed: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """One line of JSON of a program; `keep` goes before it in the file of lines."""
        line = launching.line(mpi, ranks, words, preload)
        environment = launching.environment(mpi, ranks) | dict(changed or {})
        found = launching.result(line, environment, self.timeout_seconds)
        with self.lines.open("a") as file:
            file.write(json.dumps({**keep, "mpi_name": mpi.name, **found}) + "\n")
        return found


# Figures


def spread(values: list[float]) -> dict[str, Any]:
    """Milliseconds: the median, the quartiles, the median absolute deviation."""
    scaled = [value * 1e3 for value in values]
    middle = statistics.median(scaled)
    quarters = statistics.quantiles(scaled, n=4, method="inclusive") if len(scaled) > 1 else [middle] * 3
    return {
        "median_ms": middle,
        "lower_quartile_ms": quarters[0],
        "upper_quartile_ms": quarters[2],
        "mad_ms": statistics.median(abs(value - middle) for value in scaled),
        "samples": len(scaled),
    }


def ratio(over: float | None, under: float | None) -> float | None:
    return over / under if over is not None and under else None


def geomean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value]
    return math.exp(statistics.fmean(math.log(value) for value in known)) if known else None


# Targets


def target(text: str, unit: str, limit: float, at_least: bool, figures: Mapping[str, float | None]) -> dict[str, Any]:
    """The worst figure of all cells decides.  A cell that could not be measured is no success."""
    known = {name: value for name, value in figures.items() if value is not None}
    if not known:
        return {
            "target": text,
            "unit": unit,
            "limit": limit,
            "figure": None,
            "cell": None,
            "met": False if figures else None,
        }
    worst = (min if at_least else max)(known, key=lambda name: known[name])
    good = known[worst] >= limit if at_least else known[worst] <= limit
    return {
        "target": text,
        "unit": unit,
        "limit": limit,
        "figure": known[worst],
        "cell": worst,
        "cells_met": sum(value >= limit if at_least else value <= limit for value in known.values()),
        "cells": len(figures),
        "met": good and len(known) == len(figures),
    }
