"""Writes the manual page penstock-calibrate(1), with the figures of a profile from their table.

calibrate_man.py TABLE.toml OUTPUT VERSION
"""

import sys
import tomllib
from pathlib import Path

from hints_man import roff


def figures(table: dict) -> str:
    out, section = "", ""
    for row in table["field"]:
        if row["section"] != section:
            section = row["section"]
            out += f".SS [{roff(section)}]\n"
        text = f"{row['text']} ({row['unit']}). Measured: {row['measured']}."
        out += f".TP\n.B {roff(row['name'])}\n{roff(text)}\n"
    return out


def built_in(table: dict) -> str:
    return "".join(f".TP\n.B {roff(row['name'])}\n{roff(row['text'])}.\n" for row in table["built_in"])


def page(table: dict, version: str) -> str:
    return rf""".TH PENSTOCK\-CALIBRATE 1 "" "Penstock {version}" "Penstock Manual"
.SH NAME
penstock\-calibrate \- measure what messages, files and memory cost, for the cost model
.SH SYNOPSIS
.B penstock calibrate
.BI \-\-dir " directory"
.RI [ options ]
.RB [ \-\-
.IR launcher ...]
.br
.B penstock calibrate \-\-compare
.IR profile ...
.br
.B penstock calibrate \-\-list
.SH DESCRIPTION
Starts a small MPI program natively, without the library, on the nodes that the launcher's line takes, and makes a profile of what it measures: a commented
TOML file that is found again by the name of the machine and by where the file system is mounted.
It takes about a minute, whatever the machine; progress goes to standard error.
.PP
.I launcher
is the line that starts ranks, as you would type it, without a program:
.BR "mpiexec \-n 4" .
Ranks on several nodes make it measure between nodes too.
Without a line, the first MPI that Penstock was built for is taken.
An MPI that has no measuring program yet gets one by its own compiler wrapper, which is looked for beside the launcher; it is kept in
.IR $XDG_CACHE_HOME/penstock .
.PP
The page cache and the device are measured apart.
The device is reached past the page cache (O_DIRECT) where the file system permits that; elsewhere pages are dropped before reading and writes have their
fdatasync counted.
On a file system in memory there is no device, and both are the same.
Requests of 4 KiB to 4 MiB go in order and at random, by one rank and by all at once.
.PP
Of several batches the first quartile counts, because other work on the machine only ever adds time; all the same, a quiet machine is measured better.
What a request takes and what each of its bytes adds come from robust regressions (Huber's), with deviations relative to the measured time, so that small sizes
count as much as large ones.
Of messages, what a byte adds comes from the large ones (256 KiB to 4 MiB) and what a message takes from the small ones (up to 256 bytes): between them, protocols
change and links have buffers.
R2 and the residual of every size are shown, and kept in the profile.
.PP
A figure that could not be measured, such as messages between nodes with ranks on one node only, is left out, said so, and taken from a built\-in profile.
.SH OPTIONS
.TP
.BI \-\-dir " directory"
On the file system to measure. A directory of its own is made there for a file of up to 256 MiB (more with many ranks), and removed.
.TP
.BI \-n " ranks"
As many as cores, from 2 to 4, unless given. Not together with a line that says how many.
.TP
.BI \-\-name " name"
Of the profile; from machine and file system otherwise.
.TP
.BI \-\-output " file"
Where the profile is written; otherwise
.IR name .toml
in
.IR $XDG_CONFIG_HOME/penstock/profiles ,
by default
.IR ~/.config/penstock/profiles ,
where it is found again.
.TP
.BI \-\-seconds " n"
To measure for, about (45).
.TP
.B \-\-quick
Three seconds; rough.
.TP
.BI \-\-compiler " mpicc"
Builds the measuring program, where the wrapper is not found by itself.
.TP
.B \-\-compare
Shows profiles (names, files, or built\-in ones) side by side. Figures in brackets are those of the built\-in profile beneath.
.TP
.B \-\-list
This user's profiles.
.TP
.B \-\-json
JSON on standard output.
.SH THE PROFILE
Seconds and bytes, never their multiples.
A figure may be changed or taken out by hand.
The section
.B [profile]
says what was measured where, and with
.B based_on
the built\-in profile whose figures stand for those that are not there;
.B [measurements]
is for people, nothing computes with it.
{figures(table)}.SH BUILT-IN PROFILES
Used, and said to be used, where nothing was calibrated.
{built_in(table)}.SH EXIT STATUS
0 fine, 1 failure, 2 usage, 3 a profile that can not be read.
.SH EXAMPLES
.EX
penstock calibrate \-\-dir /scratch \-\- mpiexec \-n 8 \-hosts node1,node2
penstock calibrate \-\-dir /dev/shm \-n 2 \-\-name memory
penstock calibrate \-\-compare memory nvm
.EE
.SH SEE ALSO
.BR penstock (1),
.BR penstock\-study (1),
.BR penstock\-testbed (1)
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
