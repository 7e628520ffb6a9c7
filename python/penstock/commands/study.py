"""penstock study: measures a figure of a paper again and shows it as tables and pictures.  The measuring is in penstock/study/."""

import datetime
import sys
from pathlib import Path
from typing import Any

from penstock import paths, show
from penstock.commands.bench import save
from penstock.ending import terminated_as_interrupted
from penstock.failure import FINDINGS, USAGE, Failure
from penstock.study import tables, tam


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


def default_prefix(name: str) -> Path:
    stamp = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S")
    return paths.results_directory() / stamp / name


def draw(result: dict[str, Any], prefix: Path) -> list[Path]:
    """The pictures; none, and a sentence, where there is nothing to draw them with."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        show.say("matplotlib is not installed: no pictures")
        return []
    from penstock.study import drawing

    try:
        return drawing.figures(result, prefix)
    except OSError as error:
        raise Failure(f"{prefix}: the pictures can not be written: {error.strerror}") from error


def run_tam(wanted: tam.Wanted, prefix: Path | None, as_json: bool) -> int:
    with terminated_as_interrupted():
        result = tam.run(wanted, show.say)
    prefix = prefix or default_prefix("tam")
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
