"""Writes the manual page penstock-hints(7) from the table of hints.

hints_man.py TABLE.toml OUTPUT VERSION
"""

import sys
import tomllib
from pathlib import Path

VALUES = {
    "bytes": "a number of bytes",
    "count": "a number",
    "switch": "enable, disable or automatic; true, false, yes, no, 1 and 0 are taken too",
    "string": "text",
    "nodes": "a list of nodes",
}
SCOPES = {"open": "at MPI_File_open only", "any": "at MPI_File_open, MPI_File_set_info and MPI_File_set_view"}


def roff(text: str) -> str:
    """`text` as roff shows it unchanged."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\n".join("\\&" + line if line.startswith(".") else line for line in text.splitlines())


def entry(row: dict) -> str:
    out = f".TP\n.B {roff(row['name'])}\n{roff(row['text'])}.\n"
    if row["type"] == "choice":
        out += f"Values: {roff(', '.join(row['choices']))}.\n"
    elif row["type"] in VALUES:
        out += f"Value: {roff(VALUES[row['type']])}.\n"
    if row["default"]:
        out += f"Default: {roff(row['default'])}.\n"
    if "minimum" in row:
        out += f"At least {row['minimum']}.\n"
    if row["scope"] in SCOPES:
        out += f"Taken {SCOPES[row['scope']]}.\n"
    if row["aliases"]:
        out += f"Also known as {roff(', '.join(row['aliases']))}.\n"
    return out


def page(table: dict, version: str) -> str:
    rows = table["hint"]
    taken = "".join(entry(row) for row in rows if row["type"] != "fact")
    told = "".join(entry(row) for row in rows if row["type"] == "fact")
    return rf""".TH PENSTOCK\-HINTS 7 "" "Penstock {version}" "Penstock Manual"
.SH NAME
penstock\-hints \- hints that Penstock acts on
.SH DESCRIPTION
A hint never makes a call fail and never changes what a file contains.
.BR MPI_File_get_info (3)
tells the values in force.
Hints come, the later winning over the earlier, from
.IP 1. 3
a hints file in ROMIO\(aqs format, lines of
.IR "key value" ,
named by
.B PENSTOCK_HINTS_FILE
or, without that, by
.BR ROMIO_HINTS ;
.IP 2. 3
the environment variable
.BR PENSTOCK_HINTS :
entries
.IR glob : key = value ,
separated by semicolons or line ends.
The glob is matched against the whole file name and against its last component; a colon in it is written \e:.
An entry without a glob is for every file;
.IP 3. 3
the MPI_Info of the call.
.PP
A
.B penstock_
hint that does not exist is complained about once; hints of other libraries that Penstock has no use for are ignored.
.SH HINTS
{taken}.SH FACTS
These are told by MPI_File_get_info and can not be set.
{told}.SH EXAMPLE
.EX
penstock run \-\-hints \(aq*.nc:penstock_strategy=mapped\(aq mpiexec \-n 8 ./app
.EE
.SH SEE ALSO
.BR penstock (1),
.BR penstock\-run (1)
"""


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    table, output, version = arguments
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(tomllib.loads(Path(table).read_text()), version))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
