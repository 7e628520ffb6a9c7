"""What planning a collective call of many pretended ranks costs: processor seconds and memory of each role, and, where valgrind is, instructions.

Instructions do not depend on how busy the machine is: bench/planner.json keeps those of a small problem, so that a slip shows on any machine (another
compiler or C++ library counts a little differently).  Knows the program bench/micro/planner.cpp by its JSON only.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import launching
from cells import MEBIBYTE, Progress, ratio, refuse_unknown, target

KEPT = Path(__file__).with_name("planner.json")
ROLES = ("rank", "local_aggregator", "global_aggregator")
LAYERS = {"two_layer": "two", "two_phase": "one"}
SECONDS, BYTES, SLIP = 1.0, 256 * MEBIBYTE, 1.1


def _number(options: dict[str, Any], key: str, default: int) -> int:
    text = str(options.get(key, default))
    if not text.isdecimal() or int(text) < 1:
        raise SystemExit(f"{key}={text}: expected a whole number of at least 1")
    return int(text)


def planned(program: Path, words: list[str], timeout_seconds: float) -> dict[str, Any]:
    return launching.result([str(program), *words], {}, timeout_seconds)


def instructions(program: Path, words: list[str], timeout_seconds: float) -> int | None:
    """By callgrind; None where there is no valgrind."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return None
    line = [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program), *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=timeout_seconds, check=True)
    counted = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    return int(counted.group(1)) if counted else None


def _cell(strategy: str, found: dict[str, Any]) -> dict[str, Any]:
    """A rank may have all roles."""
    return {
        "name": f"btio {strategy} x{found['ranks']}",
        "cpu_seconds": sum(found["roles"][role]["cpu_seconds"] for role in ROLES),
        "peak_bytes": max(found["roles"][role]["peak_bytes"] for role in ROLES),
        "described_bytes": found["described_bytes"],
        "roles": found["roles"],
    }


def run(*, quick: bool, options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """`quick`: 1,024 ranks instead of 16,384.  Options: build, ranks (a square number), ranks_per_node, points, timeout."""
    refuse_unknown(options, {"build", "ranks", "ranks_per_node", "points", "timeout"})
    program = Path(options.get("build") or launching.default_build()) / "bench" / "planner"
    if not program.is_file():
        raise SystemExit(f"{program} is not there; `make build` makes it")
    timeout = float(_number(options, "timeout", 300))
    words = []
    for key, default in (("ranks", 1024 if quick else 16384), ("ranks_per_node", 64), ("points", 512)):
        words += [f"--{key.replace('_', '-')}", str(_number(options, key, default))]
    cells = []
    for strategy, layers in LAYERS.items():
        progress(f"{strategy}: {' '.join(words)}")
        cells.append(_cell(strategy, planned(program, [*words, "--layers", layers], timeout)))
    kept = json.loads(KEPT.read_text())
    progress("instructions of a small problem")
    counted = instructions(program, kept["words"], timeout)
    return {
        "cells": cells,
        "summary": {
            "instructions": counted,
            "instructions_kept": kept["instructions"],
            "instructions_over_kept": ratio(counted, kept["instructions"]),
            "targets": [
                target(
                    "processor seconds of one rank",
                    "seconds",
                    SECONDS,
                    False,
                    {c["name"]: c["cpu_seconds"] for c in cells},
                ),
                target("memory of an aggregator", "bytes", BYTES, False, {c["name"]: c["peak_bytes"] for c in cells}),
                target(
                    "instructions over those kept",
                    "times",
                    SLIP,
                    False,
                    {"small problem": ratio(counted, kept["instructions"])},
                ),
            ],
        },
    }
