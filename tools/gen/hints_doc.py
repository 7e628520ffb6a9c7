"""Writes docs/hints.md from the table of hints.

hints_doc.py TABLE.toml OUTPUT
"""

import sys
import tomllib
from pathlib import Path

START = """# Hints

Generated from `table/hints.toml` by `tools/gen/hints_doc.py`; change the table, not this page.

A hint never makes a call fail and never changes what a file contains. One that cannot be understood is complained about in the log, and
what was in force stays in force; `MPI_File_get_info` tells the values in force, by the names in the first column.

Hints come, the later winning over the earlier, from a hints file in ROMIO's format (lines of `key value`, `#` starts a comment), from
`PENSTOCK_HINTS` (`glob:key=value`, separated by semicolons or line ends; without a glob, for every file), and from the `MPI_Info` of the call.

A name that starts with `penstock` and does not exist is complained about, with the nearest one that does. Names of other libraries that Penstock has
no use for are ignored.

Values: an amount of *bytes* is a number, or a number with `k`, `KiB`, `m`, `MiB`, `g` or `GiB` behind it (powers of 1024); a *switch* is `enable`,
`disable` or `automatic` (also `auto`, `true`, `false`, `yes`, `no`, `1`, `0`). Letters may be of either case.
"""

SCOPES = {"open": "open", "any": "open, set_info, set_view"}


def cell(text: str) -> str:
    """`text` as one cell of a table shows it."""
    return text.replace("|", "\\|")


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def values(row: dict) -> str:
    """What may be written, with its limits."""
    if row["type"] == "choice":
        return ", ".join(code(choice) for choice in row["choices"])
    limits = [f"{words} {row[key]}" for key, words in (("minimum", "at least"), ("maximum", "at most")) if key in row]
    return ", ".join(
        [{"string": "text", "count": "number", "nodes": "list of nodes"}.get(row["type"], row["type"]), *limits]
    )


def line(cells: list[str]) -> str:
    return "| " + " | ".join(cell(text) for text in cells) + " |\n"


def grid(head: list[str], rows: list[list[str]]) -> str:
    return line(head) + line(["---"] * len(head)) + "".join(line(row) for row in rows)


def hints_md(table: dict) -> str:
    taken = [
        [
            code(row["name"]),
            ", ".join(code(alias) for alias in row["aliases"]),
            values(row),
            code(row["default"]),
            SCOPES[row["scope"]],
            row["text"],
        ]
        for row in table["hint"]
        if row["type"] != "fact"
    ]
    told = [[code(row["name"]), code(row["default"]), row["text"]] for row in table["hint"] if row["type"] == "fact"]
    prefixes = [[code(row["name"] + ":"), row["text"]] for row in table["prefix"]]
    return (
        START
        + "\n## Hints that can be given\n\n"
        + grid(["name", "also known as", "values", "default", "taken at", "meaning"], taken)
        + "\n## Facts that are told\n\nThey cannot be given; where they are, they are ignored, so that the info of one file can be used for another.\n\n"
        + grid(["name", "value", "meaning"], told)
        + "\n## Prefixes of file names\n\nWhat may stand before a colon at the start of a name. Any other colon is part of the name.\n\n"
        + grid(["prefix", "meaning"], prefixes)
    )


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    table, output = arguments
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(hints_md(tomllib.loads(Path(table).read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
