"""Starts the command line; bin/penstock runs this file.  Says which modules are missing instead of showing a traceback."""

import importlib.util
import os
import sys

NEEDED = ("typer", "rich")


def start():
    """Old Pythons must get as far as the sentence that sends them away, so nothing newer than they are may stand here."""
    if sys.version_info < (3, 11):
        sys.exit("penstock: %s is Python %d.%d; 3.11 or newer is needed" % (sys.executable, *sys.version_info[:2]))
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(
            "penstock: %s has no module %s. In a checkout run `make build`; elsewhere run `%s -m pip install %s`. "
            "penstock-exec and LD_PRELOAD work without them."
            % (sys.executable, " and no module ".join(missing), sys.executable, " ".join(missing))
        )
    try:
        from penstock.app import main

        main()
    except KeyboardInterrupt:  # as commands end that have nothing to take down; here while modules are still being read
        sys.exit(130)


if __name__ == "__main__":
    if not __package__:
        # Run as a file: the package's parent takes the place of its directory, and no environment variable is left for children.
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    start()
