"""The hints of table/hints.toml: help text, and a check of what a user writes.  The library parses them; this only catches slips early."""

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache

from penstock import paths
from penstock.failure import USAGE, Failure


@dataclass(frozen=True)
class Hint:
    name: str
    aliases: tuple[str, ...]
    kind: str
    choices: tuple[str, ...]
    default: str
    scope: str
    text: str

    @property
    def values(self) -> str:
        """What may be written, for people."""
        if self.kind == "choice":
            return " | ".join(self.choices)
        return {
            "switch": "enable | disable | automatic",
            "bytes": "bytes",
            "count": "number",
            "nodes": "node:number,...",
            "fact": "told, never taken",
        }.get(self.kind, "text")


@cache
def table() -> tuple[Hint, ...]:
    rows = tomllib.loads(paths.table_file("hints").read_text())["hint"]
    return tuple(
        Hint(
            r["name"], tuple(r["aliases"]), r["type"], tuple(r.get("choices", [])), r["default"], r["scope"], r["text"]
        )
        for r in rows
    )


def split_entries(text: str) -> list[str]:
    """The entries of PENSTOCK_HINTS: separated by semicolons or line ends."""
    return [entry.strip() for entry in text.replace("\n", ";").split(";") if entry.strip()]


def split_entry(entry: str) -> tuple[str, str, str]:
    """`glob:key=value` or `key=value` (glob `*`); a colon of the glob is written as backslash colon."""
    head, equals, value = entry.partition("=")
    before, colon, after = _last_plain_colon(head)
    glob, key = (before, after) if colon else ("*", head)
    if not equals or not key.strip() or not glob:
        raise Failure(
            f"hint {entry!r}: expected glob:key=value or key=value, as in '*.nc:penstock_strategy=mapped'", USAGE
        )
    return glob, key.strip(), value.strip()


def _last_plain_colon(text: str) -> tuple[str, str, str]:
    for position in range(len(text) - 1, -1, -1):
        if text[position] == ":" and (position == 0 or text[position - 1] != "\\"):
            return text[:position], ":", text[position + 1 :]
    return text, "", ""


def check(text: str) -> list[str]:
    """The entries of `text`; raises Failure (usage) where one can not be meant: bad form, unknown penstock_* name, unknown choice."""
    entries = split_entries(text)
    known = {name: hint for hint in table() for name in (hint.name, *hint.aliases)}
    for entry in entries:
        _, key, value = split_entry(entry)
        hint = known.get(key)
        if hint is None:
            if key.startswith("penstock_"):
                near = difflib.get_close_matches(key, known, n=1)
                meant = f"; did you mean {near[0]}?" if near else "; penstock info --json lists those there are"
                raise Failure(f"hint {entry!r}: there is no hint {key}{meant}", USAGE)
            continue
        if hint.kind == "choice" and value not in hint.choices:
            raise Failure(f"hint {entry!r}: {key} takes {' or '.join(hint.choices)}, not {value!r}", USAGE)
        if hint.kind == "fact":
            raise Failure(f"hint {entry!r}: {key} is told by MPI_File_get_info and can not be set", USAGE)
    return entries


def help_text() -> str:
    """The hints that can be given, one paragraph each."""
    lines = ["Hints:"]
    for hint in table():
        if hint.kind == "fact":
            continue
        default = f" (default {hint.default})" if hint.default else ""
        lines.append(f"{hint.name}={hint.values}{default}: {hint.text}.")
    return "\n\n".join(lines)


def strategies() -> tuple[str, ...]:
    return next(hint.choices for hint in table() if hint.name == "penstock_strategy")
