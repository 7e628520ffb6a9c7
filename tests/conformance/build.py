"""Compiling suites: runs compilers with the lowest priority and remembers what it said.  Knows no suite."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from model import Missing

JOBS = 2


@dataclass(frozen=True)
class Program:
    """One program to compile and link with one command."""

    name: str
    command: tuple[str, ...]
    output: Path


def run(command: list[str], directory: Path, log: Path, what: str, environment: dict[str, str]) -> None:
    """Runs one build command; its output goes to `log`.  Raises Missing with the end of what it said."""
    with log.open("a") as written:
        written.write(f"$ {' '.join(command)}\n")
        written.flush()
        try:
            done = subprocess.run(
                ["nice", *command],
                cwd=directory,
                stdout=written,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                check=False,
            )
        except OSError as failure:
            raise Missing(f"{what}: {command[0]}: {failure.strerror}") from failure
    if done.returncode != 0:
        raise Missing(
            f"{what}: `{' '.join(command)[:120]}` failed, see {log}: {log.read_text(errors='replace')[-400:].strip()}"
        )


def first_error(text: str) -> str:
    for line in text.splitlines():
        if re.search(r"(?i)\berror\b|undefined reference", line):
            return " ".join(line.split())[-200:]
    return text.strip()[-200:]


def compile_all(programs: list[Program], directory: Path, log: Path, environment: dict[str, str]) -> dict[str, str]:
    """Compiles those that are not there yet; returns the names of those that failed with their first error."""

    def compile_one(program: Program) -> tuple[str, str, str]:
        done = subprocess.run(
            ["nice", *program.command],
            cwd=directory,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            env=environment,
            check=False,
        )
        text = done.stdout + done.stderr
        return program.name, text, "" if done.returncode == 0 and program.output.exists() else first_error(text)

    wanted = [program for program in programs if not program.output.exists()]
    for program in wanted:
        program.output.parent.mkdir(parents=True, exist_ok=True)
    if wanted:
        print(f"compiling {len(wanted)} programs in {directory}", file=sys.stderr)
    failed: dict[str, str] = {}
    with ThreadPoolExecutor(min(JOBS, os.cpu_count() or 1)) as pool, log.open("a") as written:
        for name, text, error in pool.map(compile_one, wanted):
            written.write(f"--- {name}\n{text}")
            if error:
                failed[name] = error
    return failed
