"""penstock env: prints the variables as shell commands, for those who start their programs themselves."""

import os
import shlex
from pathlib import Path

from penstock import environment, paths, show
from penstock.failure import USAGE, Failure

SHELLS = ("sh", "csh", "fish")


def shell_of(login_shell: str) -> str:
    """The syntax for $SHELL: csh and tcsh, fish, everything else is sh."""
    name = Path(login_shell).name
    return "csh" if name.endswith("csh") and name != "pdksh" else "fish" if name == "fish" else "sh"


def _csh_quoted(value: str) -> str:
    """csh keeps ! for itself even inside single quotes, and a line end needs a backslash."""
    return "'" + value.replace("'", "'\\''").replace("!", "\\!").replace("\n", "\\\n") + "'"


def _fish_quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def lines(variables: dict[str, str], shell: str) -> list[str]:
    """One command per variable, fit for eval."""
    if shell == "csh":
        return [f"setenv {name} {_csh_quoted(value)};" for name, value in variables.items()]
    if shell == "fish":
        return [f"set -gx {name} {_fish_quoted(value)};" for name, value in variables.items()]
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]


def run(wanted: environment.Wanted, shell: str, as_json: bool) -> int:
    shell = shell or shell_of(os.environ.get("SHELL", "sh"))
    if shell not in SHELLS:
        raise Failure(f"--shell {shell}: expected {', '.join(SHELLS)}", USAGE)
    library = environment.library_in(paths.library_directory())
    variables = environment.variables(os.environ, library, wanted)
    if as_json:
        show.print_json({"environment": variables})
    else:
        print("\n".join(lines(variables, shell)))
    return 0
