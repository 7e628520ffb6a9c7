"""Where things are: the libraries, the tables, the benchmarks.  Knows both shapes of the tree, a checkout and an installation."""

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


def bench_directory() -> Path:
    root = checkout_root()
    return root / "bench" if root else PACKAGE.parents[1] / "bench"


def results_directory() -> Path:
    """results/ of the checkout, else of the directory the user is in."""
    return (checkout_root() or Path.cwd()) / "results"
