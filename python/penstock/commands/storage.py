"""penstock study page-cache, interfaces, collective, shuffle: the figures of the NVM paper.  The measuring is in penstock/study/runs.py."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from penstock import show
from penstock.commands.bench import save
from penstock.commands.study import check_bed, drawn, numbers, prefix_of, words
from penstock.ending import terminated_as_interrupted
from penstock.failure import FINDINGS, USAGE, Failure
from penstock.study import cases, charts, collective, devices, interfaces, page_cache, runs, shuffle


def named_directories(given: Sequence[str]) -> tuple[tuple[str, Path], ...]:
    """ "ssd=/scratch" -> ("ssd", /scratch)."""
    found = []
    for text in given:
        name, equals, directory = text.partition("=")
        if not equals or not name or not Path(directory).is_dir():
            raise Failure(f"--device {text!r}: expected NAME=DIR, with a directory that is there", USAGE)
        found.append((name, Path(directory).absolute()))
    if len({name for name, _ in found}) < len(found):
        raise Failure("--device: expected a name once only", USAGE)
    return tuple(found)


def kinds(text: str, directories: Sequence[tuple[str, Path]]) -> tuple[str, ...]:
    """The devices to pretend: those asked for, or all when no directory is named."""
    if not text:
        return () if directories else devices.KINDS
    found = tuple(dict.fromkeys(word for word in text.split(",") if word))
    for word in found:
        if word not in devices.KINDS:
            raise Failure(
                f"--devices {text!r}: expected some of {', '.join(devices.KINDS)}, with commas between", USAGE
            )
    if twice := set(found) & {name for name, _ in directories}:
        raise Failure(f"--device {min(twice)}=DIR: expected another name, since --devices has it too", USAGE)
    return found


def caches(text: str) -> tuple[int, ...] | None:
    """ "64m,1g" -> bytes, ascending; "none" -> no limits; "" -> the study's own."""
    if not text:
        return None
    if text == "none":
        return ()
    found = set()
    for word in text.lower().split(","):
        letter = " kmgt".find(word[-1:])
        digits = word[:-1] if letter > 0 else word
        if not digits.isdecimal() or int(digits) == 0 or len(digits) > 15:
            raise Failure(f"--cache {text!r}: expected sizes such as 64m,1g with commas between, or none", USAGE)
        found.add(int(digits) << (10 * max(0, letter)))
    return tuple(sorted(found))


def kernels_of(study: cases.Study, given: list[str]) -> tuple[str, ...]:
    found = words(given)
    for name in found:
        if name not in study.kernels:
            raise Failure(f"--kernel {name}: expected some of {', '.join(study.kernels)}", USAGE)
    return found


def storage_study(name: str) -> cases.Study:
    known = {one.name: one for one in (page_cache.STUDY, interfaces.STUDY, collective.STUDY, shuffle.STUDY)}
    return known[name]


# The quick sizes: files of tens of megabytes.
QUICK_SCALE = {"page-cache": 32, "interfaces": 64, "collective": 32, "shuffle": 128}


def wanted_of(study: cases.Study, asked: dict[str, Any]) -> cases.Wanted:
    """What the options mean; those that a study does not have are as if they were not given."""
    full = asked["full"]
    directories = named_directories(asked["device"] or [])
    return cases.Wanted(
        devices=kinds(asked["devices"], directories),
        directories=directories,
        mpis=words(asked["mpi"] or []),
        ranks=asked.get("ranks", 4),
        nodes=asked.get("nodes", 1) or (4 if full else 2),
        ranks_per_node=numbers("--ranks-per-node", asked.get("ranks_per_node", "4")),
        kernels=kernels_of(study, asked.get("kernel") or []) or default_kernels(study),
        caches=caches(asked.get("cache", "")),
        scale=asked["scale"] or (1 if full else QUICK_SCALE[study.name]),
        rounds=asked["rounds"] or (3 if full else 2),
        timeout_seconds=asked["timeout"] or (7200.0 if full else 120.0),
        bed=asked.get("bed", ""),
    )


def default_kernels(study: cases.Study) -> tuple[str, ...]:
    return study.kernels if study.name == "page-cache" else study.kernels[:1]


def run_of_storage(study: cases.Study, wanted: cases.Wanted, prefix: Path | None, as_json: bool) -> int:
    prefix = prefix_of(prefix, study.name)
    check_bed(wanted.bed)
    with terminated_as_interrupted():
        result = runs.run(study, wanted, show.say)
    written = [prefix.with_name(f"{prefix.name}.json")]
    save(result, written[0])
    if result["panels"]:
        written += drawn(prefix, partial(charts.figure, result, prefix))
    if as_json:
        show.print_json(result)
    else:
        charts.print_result(result, sys.stdout)
    show.say(f"saved in {', '.join(map(str, written))}")
    for kind, text in result["left_out"].items():
        show.say(f"{kind} was left out: {text}")
    for name, text in result["failures"].items():
        show.say(f"{name} failed: {text}")
    return FINDINGS if result["failures"] or result["left_out"] or result["interrupted"] else 0
