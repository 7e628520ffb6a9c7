"""`python -m penstock`: says which modules are missing instead of showing a traceback."""

import importlib.util
import sys

NEEDED = ("typer", "rich")


def start() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"penstock: {sys.executable} has no module {' and no module '.join(missing)}. In a checkout run `make build`; "
            f"elsewhere run `{sys.executable} -m pip install {' '.join(missing)}`. "
            "penstock-exec and LD_PRELOAD work without them.\n"
        )
        sys.exit(1)
    from penstock.app import main

    main()


if __name__ == "__main__":
    start()
