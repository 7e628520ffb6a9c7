"""Where things are: the libraries, the tables, the benchmarks.  Knows both shapes of the tree, a checkout and an installation."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def checkout_root() -> Path | None:
    """The top of the checkout this package runs from, or None when it is installed."""
    top = PACKAGE.parent.parent
    return top if (top / "CMakeLists.txt").is_file() and (top / "table").is_dir() else None


def table_file(name: str) -> Path:
    """table/NAME.toml, which is package data."""
    return PACKAGE / "table" / f"{name}.toml"


def library_directory(environment: Mapping[str, str] | None = None) -> Path:
    """The directory of libpenstock.so: PENSTOCK_LIBDIR, else build/release/lib of the checkout, else PREFIX/lib.

    An installation has this package in PREFIX/share/penstock/python/penstock.
    """
    chosen = (os.environ if environment is None else environment).get("PENSTOCK_LIBDIR", "")
    if chosen:
        return Path(chosen).absolute()
    root = checkout_root()
    return root / "build" / "release" / "lib" if root else PACKAGE.parents[3] / "lib"


def program(name: str, environment: Mapping[str, str] | None = None) -> Path:
    """A program that was built, penstock-model for one: in bin/ beside the directory of the library, in a build and in an installation."""
    return library_directory(environment).parent / "bin" / name


def home(environment: Mapping[str, str] | None = None) -> Path:
    """The user's; the root directory for one whom the system does not know, as in a container."""
    chosen = (os.environ if environment is None else environment).get("HOME", "")
    try:
        return Path(chosen) if chosen else Path.home()
    except RuntimeError:
        return Path("/")


def why_not_writable(path: Path) -> str:
    """Why no file can be made at `path`, as far as that can be known without making it, or "".  Directories that are not there yet are made later."""
    if path.is_dir():
        return os.strerror(errno.EISDIR)
    there = next(place for place in (path, *path.absolute().parents) if os.path.lexists(place))
    if there == path:
        return "" if os.access(path, os.W_OK) else os.strerror(errno.EACCES)
    if not there.is_dir():
        return f"{there}: {os.strerror(errno.ENOTDIR)}"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{there}: not writable"


def bench_directory() -> Path:
    root = checkout_root()
    return root / "bench" if root else PACKAGE.parents[1] / "bench"


def results_directory() -> Path:
    """results/ of the checkout, else of the directory the user is in."""
    return (checkout_root() or Path.cwd()) / "results"
