"""penstock bench: runs one benchmark of bench/, ratios first.  The measuring itself is in bench/NAME.py.

Such a module has `run(*, quick: bool, options: dict, progress) -> dict` and returns {"cells": [...], "summary": {...}}; a cell or the
summary with "verified": false means that bytes came back wrong.
"""

import datetime
import importlib.util
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock import paths, show
from penstock.ending import terminated_as_interrupted
from penstock.failure import FINDINGS, USAGE, Failure


def names(directory: Path) -> list[str]:
    """The benchmarks there are: modules with a run function, found without running them."""
    found = []
    for path in sorted(directory.glob("*.py")):
        # Helpers have functions of that name too, with other parameters.
        if re.search(r"^def run\(\*, quick\b", path.read_text(errors="replace"), re.MULTILINE):
            found.append(path.stem)
    return found


def load(name: str, directory: Path) -> ModuleType:
    known = names(directory)
    if name not in known:
        raise Failure(
            f"bench {name!r}: expected one of {', '.join(known) or 'none: there is no benchmark in ' + str(directory)}",
            USAGE,
        )
    path = directory / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"penstock_bench_{name}", path)
    if spec is None or spec.loader is None:
        raise Failure(f"{path} can not be loaded")
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))  # benchmarks share helpers that lie beside them
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def options_of(pairs: list[str], mpis: list[str]) -> dict[str, Any]:
    """`key=value` words and the MPIs to measure, as the benchmark gets them."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise Failure(f"--option {pair!r}: expected key=value", USAGE)
        options[key] = value
    if mpis:
        options["mpi"] = mpis
    return options


def verified(result: dict[str, Any]) -> bool:
    parts = [result.get("summary", {}), *result.get("cells", [])]
    return all(part.get("verified", True) for part in parts)


def summary_lines(result: dict[str, Any]) -> list[str]:
    """Ratios first, then the rest of the summary, then a line per cell."""
    summary = result.get("summary", {})
    ratios = [key for key in summary if key.endswith("ratio")]
    lines = [f"{key.replace('_', ' ')}: {_plain(summary[key])}" for key in ratios]
    lines += [f"{key.replace('_', ' ')}: {_plain(value)}" for key, value in summary.items() if key not in ratios]
    for cell in result.get("cells", []):
        lines.append(
            "  "
            + "  ".join(f"{key}={_plain(value)}" for key, value in cell.items() if not isinstance(value, (dict, list)))
        )
    return lines


def _plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def default_output(name: str, quick: bool) -> Path:
    stamp = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S")
    return paths.results_directory() / stamp / f"{name}{'-quick' if quick else ''}.json"


def check_place(path: Path) -> None:
    """Raises Failure where save() would, before anybody has measured for minutes."""
    if why := paths.why_not_writable(path):
        raise Failure(f"{path}: the result can not be written: {why}; name another place with --output")


def save(result: dict[str, Any], path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")
    except OSError as error:
        raise Failure(f"{path}: the result can not be written: {error.strerror}") from error


def run(name: str, quick: bool, mpis: list[str], pairs: list[str], output: Path | None, as_json: bool) -> int:
    options = options_of(pairs, mpis)
    measure: Callable[..., dict[str, Any]] = load(name, paths.bench_directory()).run
    path = output or default_output(name, quick)
    check_place(path)
    with terminated_as_interrupted():
        result = measure(quick=quick, options=options, progress=show.say)
    save(result, path)
    if as_json:
        show.print_json(result)
    else:
        print("\n".join(show.printable(line) for line in summary_lines(result)))
    show.say(f"saved in {path}")
    if not verified(result):
        show.say("bytes came back wrong: the times above mean nothing")
        return FINDINGS
    return 0
