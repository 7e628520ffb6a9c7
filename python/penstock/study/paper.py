"""The cost model of the paper on collective I/O over non-volatile memory: its tables and its trade-off figure, computed again.

Arithmetic is penstock-model's; here are the questions, and what its answers are set beside.  Starts no MPI, prints nothing.
"""

import functools
import math
import tomllib
from collections.abc import Sequence
from typing import Any

from penstock import model, paths
from penstock.profiles import Profile

MB = 1 << 20  # as the paper's numbers take it
PAGE_BYTES = 4096
TRADEOFF_BYTES = tuple(1 << power for power in range(15, 25))  # 32 KiB to 16 MiB
# Cells whose estimate and measurement give another error than the one printed beside them.
ERROR_DIFFERS_PERCENT = 0.051


@functools.cache
def printed() -> dict[str, Any]:
    return tomllib.loads(paths.table_file("paper_model").read_text())


def platform_of_paper(device: dict[str, Any]) -> dict[str, float]:
    shared = printed()["platform"]
    names = ("startup_seconds", "transfer_seconds_per_mb")
    return {name: shared[name] for name in names} | {
        name: device[name] for name in ("sequential_mb_per_second", "random_mb_per_second")
    }


def nodes_of(table: str) -> int:
    return 4 if table == "V" else 2


# Tables V and VI


def cut_off(seconds: float) -> float:
    """To two decimals, as the paper prints."""
    return math.floor(seconds * 100) / 100


def significant(value: float, digits: int) -> float:
    return round(value, digits - 1 - math.floor(math.log10(value))) if value > 0 else value


def _questions(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """The cell as the paper states how it is estimated, and under the assumption that gives the printed digits."""
    shared = printed()["platform"]
    device = next(one for one in printed()["device"] if one["name"] == cell["device"])
    stated = {name: shared[name] for name in ("total_mb", "buffer_mb", "ranks")} | {
        "aggregators": nodes_of(cell["table"])
    }
    assumed = stated | {
        to: cell[of]
        for of, to in (("iterations", "iterations"), ("message_mb", "message_mb"), ("share", "shuffled_share"))
        if of in cell
    }
    platform = platform_of_paper(device)
    return [{"operation": "paper", "platform": platform, "workload": workload} for workload in (stated, assumed)]


def _computed(cell: dict[str, Any], answer: dict[str, Any]) -> float:
    file_seconds: float = answer[f"{cell['bandwidth']}_seconds"]
    if cell["access"] == "individual":
        return file_seconds
    startup = cell["iterations"] * printed()["platform"]["startup_seconds"]
    parts = [startup, answer["communication_seconds"] - startup]
    if cell["digits"]:
        parts = [significant(part, digits) for part, digits in zip(parts, cell["digits"], strict=True)]
    communication: float = sum(parts)
    return file_seconds + communication


def cells() -> list[dict[str, Any]]:
    """Every estimate of Tables V and VI: as printed, by the stated parameters, by the assumption that gives the printed digits; and measured."""
    wanted = printed()["cell"]
    answers = model.ask([question for cell in wanted for question in _questions(cell)])
    rows = []
    for cell, stated, assumed in zip(wanted, answers[::2], answers[1::2], strict=True):
        computed = cut_off(_computed(cell, assumed))
        error = 100 * abs(cell["estimated"] - cell["measured"]) / cell["measured"]
        rows.append(
            {
                "table": cell["table"],
                "nodes": nodes_of(cell["table"]),
                "device": cell["device"],
                "access": cell["access"],
                "printed_seconds": cell["estimated"],
                "stated_seconds": stated[f"{cell['access']}_seconds"],
                "computed_seconds": computed,
                "same_digits": math.isclose(computed, cell["estimated"], abs_tol=1e-6),
                "explained": cell["explained"],
                "assumption": cell["assumption"],
                "measured_seconds": cell["measured"],
                "printed_error_percent": cell["error_percent"],
                "error_percent": error,
                "same_error": abs(error - cell["error_percent"]) <= ERROR_DIFFERS_PERCENT,
            }
        )
    return rows


def errors(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The paper's "average error 4.93 % and at most 14.4 %", of what it prints in brackets and of what its times give."""
    brackets, true = ([row[name] for row in rows] for name in ("printed_error_percent", "error_percent"))
    return {
        "printed_mean_percent": sum(brackets) / len(rows),
        "printed_worst_percent": max(brackets),
        "mean_percent": sum(true) / len(rows),
        "worst_percent": max(true),
    }


# A calibrated profile in the paper's terms


def mb_per_second(
    profile: Profile, write: bool, random: bool, request_bytes: float, accessors: int, processors: int, durable: bool
) -> float:
    """What `accessors` ranks get together.  `durable`: from the device, even where programs see the page cache."""
    section = "storage.write" if write else "storage.read"
    get = profile.figures
    if get["file.cached"] and not durable:
        seconds = get[f"{section}.cached_call"] + request_bytes * get[f"{section}.cached_per_byte"]
        seconds += math.ceil(request_bytes / PAGE_BYTES) * get["file.new_page"] if write else 0
        at_once = min(accessors, processors, get[f"{section}.cached_ranks"])
    else:
        call = get[f"{section}.{'device_random_call' if random else 'device_call'}"]
        moving = request_bytes * get[f"{section}.device_per_byte"]
        at_once = max(1.0, min(accessors, get[f"{section}.device_ranks"]))
        through = max(1.0, min(accessors, get[f"{section}.device_streams"]))
        if get[f"{section}.device_ranks"] < 2:  # one head
            seconds = call + moving * at_once / through
        else:
            seconds = max(call + moving, moving * at_once / through)
    return request_bytes / max(seconds, 1e-12) * max(1.0, at_once) / MB


def platform_of(
    profile: Profile,
    between_nodes: bool,
    aggregators: int,
    ranks: int,
    processors: int,
    buffer_bytes: float,
    piece_bytes: float,
    write: bool = True,
    durable: bool = False,
) -> dict[str, float]:
    """Ts, Tw and the bandwidths as the paper would measure them: sequential, the aggregators' buffers; random, every rank's pieces.
    `processors`: of all nodes."""
    network = "network.between" if between_nodes else "network.inside"
    get = profile.figures

    def rate(random: bool, request_bytes: float, accessors: int) -> float:
        return mb_per_second(profile, write, random, request_bytes, accessors, processors, durable)

    return {
        "startup_seconds": get[f"{network}.startup"],
        "transfer_seconds_per_mb": get[f"{network}.per_byte"] * MB,
        "sequential_mb_per_second": rate(False, buffer_bytes, aggregators),
        "random_mb_per_second": rate(True, piece_bytes, ranks),
    }


# Figure 11


def _tradeoff_question(platform: dict[str, float], message_bytes: int, nodes: int, ranks: int) -> dict[str, Any]:
    """One iteration: each of the aggregators, one for each node, accesses a message."""
    message = message_bytes / MB
    workload = {
        "total_mb": message * nodes,
        "buffer_mb": message,
        "ranks": ranks,
        "aggregators": nodes,
        "message_mb": message,
        "iterations": 1,
    }
    return {"operation": "paper", "platform": platform, "workload": workload}


def tradeoff(devices: Sequence[tuple[str, Any]], nodes: int, per_node: int) -> list[dict[str, Any]]:
    """Shuffle cost and benefit over the message size.  `devices`: a name, and a function from the message's bytes to the platform."""
    points = [(name, platform, size) for name, platform in devices for size in TRADEOFF_BYTES]
    answers = model.ask(
        [_tradeoff_question(platform(size), size, nodes, nodes * per_node) for _, platform, size in points]
    )
    rows = []
    for (name, _, size), one in zip(points, answers, strict=True):
        benefit = one["individual_seconds"] - one["collective_seconds"]
        rows.append(
            {
                "device": name,
                "message_bytes": size,
                "shuffle_seconds": one["communication_seconds"],
                "benefit_seconds": benefit,
                "file_benefit_seconds": benefit + one["communication_seconds"],
                "benefit_exceeds_shuffle": benefit > one["communication_seconds"],
                "collective_is_faster": benefit > 0,
            }
        )
    return rows


def statements(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the paper says of its figure, and whether these rows say so too.  Requires: rows of the paper's own devices."""

    def of(device: str, sizes: Sequence[int] = TRADEOFF_BYTES) -> list[dict[str, Any]]:
        return [row for row in rows if row["device"] == device and row["message_bytes"] in sizes]

    def grows(name: str, devices: Sequence[str]) -> bool:
        return all(
            one[name] < other[name]
            for device in devices
            for one, other in zip(of(device), of(device)[1:], strict=False)
        )

    names = ("HDD", "SSD", "NVM")
    said = [
        ("HDD: the shuffle costs more than the benefit at 32 KiB", not of("HDD", (1 << 15,))[0]["benefit_exceeds_shuffle"]),
        ("HDD: the shuffle costs less than the benefit at 2 MiB and 16 MiB", all(row["benefit_exceeds_shuffle"] for row in of("HDD", (1 << 21, 1 << 24)))),
        ("SSD and NVM: the shuffle always costs more than the benefit", not any(row["benefit_exceeds_shuffle"] for name in names[1:] for row in of(name))),
        ("the shuffle's cost grows with the message", grows("shuffle_seconds", names)),
        ("the benefit grows with the message, HDD", grows("benefit_seconds", names[:1])),
        ("the benefit grows with the message, SSD and NVM", grows("benefit_seconds", names[1:])),
        ("the benefit without the shuffle grows with the message, all three", grows("file_benefit_seconds", names)),
    ]  # fmt: skip
    return [{"text": text, "holds": holds} for text, holds in said]
