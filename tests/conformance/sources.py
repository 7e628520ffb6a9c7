"""Fetches other people's sources into the cache with the distribution's and Python's own clients, and checks what it fetched before.

Nothing of it enters the repository.  The system's package configuration is read, never changed: a private copy of it has the
source entries switched on.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from model import Missing


@dataclass
class Source:
    name: str
    version: str
    tree: Path
    files: dict[str, str]  # archive name -> sha256

    def as_dict(self) -> dict:
        return {"name": self.name, "version": self.version, "files": self.files}


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _run(command: list[str], directory: Path, what: str) -> str:
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError as failure:
        raise Missing(f"{what}: {command[0]}: {failure.strerror}") from failure
    if done.returncode != 0:
        raise Missing(f"{what}: `{' '.join(command[:3])} …` failed: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


def with_source_entries(text: str, deb822: bool, codename: str) -> str:
    """The entries of one apt source file that belong to the distribution `codename`, with source packages switched on; "" if none.

    Other people's repositories are left out: they need not carry sources, and nothing is wanted from them.
    """
    suite = re.compile(rf"^{re.escape(codename)}(-\w+)*$")
    if deb822:
        kept = []
        for stanza in re.split(r"\n\s*\n", text):
            lines = [line for line in stanza.splitlines() if not line.startswith("#")]
            suites = " ".join(line.split(":", 1)[1] for line in lines if line.lower().startswith("suites:")).split()
            if any(suite.match(word) for word in suites) and not any(
                re.match(r"(?i)enabled:\s*no", line) for line in lines
            ):
                kept.append(
                    "\n".join("Types: deb-src" if line.lower().startswith("types:") else line for line in lines)
                )
        return "\n\n".join(kept) + "\n" if kept else ""
    kept = []
    for line in text.splitlines():
        found = re.match(r"\s*deb(?:-src)?\s+((?:\[[^\]]*\]\s+)?\S+\s+(\S+).*)", line)
        if found and suite.match(found.group(2)):
            kept.append(f"deb-src {found.group(1)}")
    return "\n".join(dict.fromkeys(kept)) + "\n" if kept else ""


def _codename() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.split("=", 1)[1].strip('"')
    raise Missing("source packages: /etc/os-release names no VERSION_CODENAME; this needs Debian or a relative of it")


def _apt_options(cache: Path) -> list[str]:
    """Options that make apt use a private configuration with source entries; its lists are fetched once."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-source"):
        raise Missing("source packages: apt-get and dpkg-source are needed; apt-get install dpkg-dev")
    root = cache / "apt"
    entries, lists = root / "entries", root / "lists"
    options = [
        f"-oDir::Etc::sourcelist={root / 'none'}",
        f"-oDir::Etc::sourceparts={entries}",
        f"-oDir::State::lists={lists}",
        f"-oDir::Cache::pkgcache={root / 'packages.bin'}",
        f"-oDir::Cache::srcpkgcache={root / 'sources.bin'}",
        "-oAcquire::Languages=none",
    ]
    if (root / "complete").exists():
        return options
    for directory in (entries, lists / "partial"):
        directory.mkdir(parents=True, exist_ok=True)
    found, codename, apt = 0, _codename(), Path("/etc/apt")
    for path in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        if not path.is_file() or path.suffix not in (".list", ".sources"):
            continue
        text = with_source_entries(path.read_text(), path.suffix == ".sources", codename)
        if text:
            (entries / path.name).write_text(text)
            found += 1
    if not found:
        raise Missing(f"source packages: no entry for {codename} in /etc/apt/sources.list or sources.list.d")
    print("reading the distribution's list of source packages", file=sys.stderr)
    _run(["apt-get", *options, "update"], root, "source packages")
    (root / "complete").touch()
    return options


def _recorded(record: Path) -> Source | None:
    """What was fetched before, when it is all there and unchanged."""
    if not record.exists():
        return None
    row = json.loads(record.read_text())
    archives = record.parent
    for name, digest in row["files"].items():
        if not (archives / name).exists() or sha256(archives / name) != digest:
            return None
    tree = archives / "tree"
    return Source(row["name"], row["version"], tree, row["files"]) if tree.is_dir() else None


def _keep(record: Path, name: str, version: str, archives: list[Path]) -> Source:
    files = {path.name: sha256(path) for path in sorted(archives)}
    record.write_text(json.dumps({"name": name, "version": version, "files": files}, indent=2) + "\n")
    return Source(name, version, record.parent / "tree", files)


def debian_source(package: str, cache: Path) -> Source:
    """The distribution's source package, unpacked with its patches.  apt checks it against the signed index."""
    directory = cache / "sources" / package
    record = directory / "fetched.json"
    kept = _recorded(record)
    if kept:
        return kept
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    options = _apt_options(cache)
    print(f"fetching the source package {package}", file=sys.stderr)
    _run(["apt-get", *options, "-q", "source", "--download-only", package], directory, package)
    descriptions = list(directory.glob("*.dsc"))
    if len(descriptions) != 1:
        raise Missing(f"{package}: apt-get source left {len(descriptions)} .dsc files in {directory}, expected one")
    archives = [path for path in directory.iterdir() if path.is_file()]
    version = re.search(r"(?m)^Version: (\S+)", descriptions[0].read_text()).group(1)
    _run(["dpkg-source", "--no-check", "-x", descriptions[0].name, "tree"], directory, package)
    return _keep(record, package, version, archives)


def python_source(package: str, version: str, python: str, cache: Path) -> Source:
    """The source distribution of a Python package, in the version that is installed for `python`."""
    directory = cache / "sources" / f"{package}-{version}"
    record = directory / "fetched.json"
    kept = _recorded(record)
    if kept:
        return kept
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    print(f"fetching the source distribution of {package} {version}", file=sys.stderr)
    _run(
        [
            python,
            "-m",
            "pip",
            "download",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
            f"--no-binary={package}",
            f"{package}=={version}",
        ],
        directory,
        package,
    )
    archives = list(directory.glob("*.tar.gz"))
    if len(archives) != 1:
        raise Missing(f"{package}: pip download left {len(archives)} archives in {directory}, expected one")
    unpacking = directory / "unpacking"
    shutil.unpack_archive(archives[0], unpacking, filter="data")
    next(unpacking.iterdir()).rename(directory / "tree")
    unpacking.rmdir()
    return _keep(record, package, version, archives)
