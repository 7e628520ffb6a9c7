"""Makes the figures of a profile from the lines that the calibration program prints.  Pure: measures, reads and writes nothing."""

import itertools
import json
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

PAGE_BYTES = 4096
# Beyond so many times the usual deviation a point pulls with its sign only (Huber); 1.345 keeps 95 % of least squares' efficiency on clean points.
HUBER = 1.345
ROUNDS = 60
FROM_DEVIATION = 1.4826  # the median absolute deviation of normal noise, times this, is its standard deviation
# Writing must be so many times faster than the device for programs to see the page cache.
CACHED_TIMES = 2.0
SMALL_MESSAGE_BYTES = 256
LARGE_MESSAGE_BYTES = 262144

Line = dict[str, Any]


@dataclass(frozen=True)
class Fit:
    """seconds = startup + per_byte * bytes, and how well that describes the points."""

    startup: float
    per_byte: float
    r2: float  # on relative deviations: 1 is a perfect line, 0 no better than one and the same time for all sizes
    points: tuple[tuple[float, float], ...]

    def at(self, size: float) -> float:
        return self.startup + self.per_byte * size

    def residuals_percent(self) -> list[float]:
        """How much longer each point took than the line says."""
        return [100 * (seconds / self.at(size) - 1) if self.at(size) > 0 else 0.0 for size, seconds in self.points]

    def as_json(self) -> dict[str, Any]:
        residuals = self.residuals_percent()
        return {
            "startup": self.startup,
            "per_byte": self.per_byte,
            "r2": self.r2,
            "worst_residual_percent": max(residuals, key=abs),
            "points": [
                {"size_bytes": size, "seconds": seconds, "residual_percent": round(residual, 2)}
                for (size, seconds), residual in zip(self.points, residuals, strict=True)
            ],
        }


def _weighted(
    rows: Sequence[tuple[float, float]], weights: Sequence[float], start: bool, slope: bool
) -> tuple[float, float]:
    """Least squares of 1 = a * u + b * v over rows (u, v); a or b is 0 where it is not asked for."""
    uu = sum(w * u * u for w, (u, _) in zip(weights, rows, strict=True))
    uv = sum(w * u * v for w, (u, v) in zip(weights, rows, strict=True))
    vv = sum(w * v * v for w, (_, v) in zip(weights, rows, strict=True))
    u1 = sum(w * u for w, (u, _) in zip(weights, rows, strict=True))
    v1 = sum(w * v for w, (_, v) in zip(weights, rows, strict=True))
    determinant = uu * vv - uv * uv
    if start and slope and determinant > 1e-12 * uu * vv:
        return (u1 * vv - v1 * uv) / determinant, (v1 * uu - u1 * uv) / determinant
    if start:
        return (u1 / uu if uu else 0.0), 0.0
    return 0.0, (v1 / vv if vv else 0.0)


def _robust(rows: Sequence[tuple[float, float]], start: bool, slope: bool) -> tuple[float, float]:
    """Huber's estimate by reweighting: points far from the line keep their direction and lose their weight."""
    weights = [1.0] * len(rows)
    a, b = _weighted(rows, weights, start, slope)
    for _ in range(ROUNDS):
        residuals = [1 - a * u - b * v for u, v in rows]
        scale = FROM_DEVIATION * statistics.median(abs(one) for one in residuals)
        limit = HUBER * max(scale, 1e-12)
        weights = [1.0 if abs(one) <= limit else limit / abs(one) for one in residuals]
        last, (a, b) = (a, b), _weighted(rows, weights, start, slope)
        if math.isclose(a, last[0], rel_tol=1e-12) and math.isclose(b, last[1], rel_tol=1e-12):
            break
    return a, b


def _deviation(rows: Sequence[tuple[float, float]], a: float, b: float) -> float:
    """R2 of 1 = a * u + b * v against the best constant time."""
    constant, _ = _weighted(rows, [1.0] * len(rows), True, False)
    around = sum((1 - constant * u) ** 2 for u, _ in rows)
    beside = sum((1 - a * u - b * v) ** 2 for u, v in rows)
    return 1 - beside / around if around > 0 else 1.0


def _scaled(kept: Sequence[tuple[float, float]]) -> tuple[float, float, list[tuple[float, float]]]:
    """seconds = a + b * size, divided by the seconds and, so that numbers are near 1, by the middle ones of each."""
    time, length = statistics.median(seconds for _, seconds in kept), statistics.median(size for size, _ in kept)
    return time, length, [(time / seconds, size / length * time / seconds) for size, seconds in kept]


def fit(points: Iterable[tuple[float, float]]) -> Fit | None:
    """A robust line through (bytes, seconds), with deviations taken relative to the seconds so that small sizes count as much as large ones.

    Neither coefficient is negative: what would be is 0, and the other one fitted alone.  None for fewer than two sizes.
    """
    kept = tuple(sorted((float(size), float(seconds)) for size, seconds in points if seconds > 0))
    if len({size for size, _ in kept}) < 2:
        return None
    time, length, rows = _scaled(kept)
    a, b = _robust(rows, True, True)
    if a < 0:
        a, b = _robust(rows, False, True)
    elif b < 0:
        a, b = _robust(rows, True, False)
    return Fit(a * time, b * time / length, _deviation(rows, a, b), kept)


def pairwise_slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between any two points (Theil and Sen): of few points, one may be anywhere."""
    return statistics.median(
        (other[1] - one[1]) / (other[0] - one[0])
        for one, other in itertools.combinations(points, 2)
        if one[0] != other[0]
    )


def fit_ends(points: Iterable[tuple[float, float]]) -> Fit | None:
    """For messages: what each byte adds from large ones, and what a message takes whatever its size from small ones.

    Between them MPI libraries change their protocol and links have buffers, so that one line through all sizes would be wrong at both ends, where a
    model needs it: in agreements and in bulk data.
    """
    kept = tuple(sorted((float(size), float(seconds)) for size, seconds in points if seconds > 0))
    large = [point for point in kept if point[0] >= LARGE_MESSAGE_BYTES]
    small = [point for point in kept if point[0] <= SMALL_MESSAGE_BYTES]
    whole = fit(kept)
    if whole is None or len(large) < 3 or len(small) < 3:
        return whole
    slope = pairwise_slope(large)
    per_byte = slope if slope > 0 else whole.per_byte
    startup = statistics.median(seconds for _, seconds in small)
    time, length, rows = _scaled(kept)
    return Fit(startup, per_byte, _deviation(rows, startup / time, per_byte * length / time), kept)


def extra(points: Iterable[tuple[float, float]], per_byte: float) -> float | None:
    """What a request takes besides its bytes, when those are known: robust, not negative."""
    kept = [(size, seconds) for size, seconds in points if seconds > 0]
    if not kept:
        return None
    # 1 - per_byte * size / seconds = a / seconds
    time = statistics.median(seconds for _, seconds in kept)
    targets = [1 - per_byte * size / seconds for size, seconds in kept]
    rows = [time / seconds for _, seconds in kept]
    a = statistics.median(target / row for target, row in zip(targets, rows, strict=True))
    for _ in range(ROUNDS):
        residuals = [target - a * row for target, row in zip(targets, rows, strict=True)]
        limit = HUBER * max(FROM_DEVIATION * statistics.median(abs(one) for one in residuals), 1e-12)
        weights = [min(1.0, limit / abs(one)) if one else 1.0 for one in residuals]
        a = sum(w * t * r for w, t, r in zip(weights, targets, rows, strict=True)) / sum(
            w * r * r for w, r in zip(weights, rows, strict=True)
        )
    return max(0.0, a * time)


# Lines of the program


def parse(text: str) -> list[Line]:
    """The lines that are measurements; what MPI libraries print between them is left out."""
    found = []
    for line in text.splitlines():
        if not line.startswith('{"kind"'):
            continue
        try:
            one = json.loads(line)
        except ValueError:
            continue
        if isinstance(one, dict) and isinstance(one.get("kind"), str):
            found.append(one)
    return found


def of_kind(lines: Sequence[Line], kind: str, **wanted: Any) -> list[Line]:
    return [
        one for one in lines if one["kind"] == kind and all(one.get(name) == value for name, value in wanted.items())
    ]


def points_of(lines: Sequence[Line]) -> list[tuple[float, float]]:
    return [(one["size_bytes"], one["seconds"]) for one in lines]


def steps(ranks: int) -> int:
    """Rounds of an agreement: the binary logarithm, rounded up."""
    return max(1, math.ceil(math.log2(max(ranks, 2))))


@dataclass
class Result:
    """Figures by "section.name", what stands behind them, and which could not be measured."""

    figures: dict[str, float]
    measurements: dict[str, Any]


def _network(lines: Sequence[Line], out: Result) -> None:
    for between, name in ((False, "inside"), (True, "between")):
        line = fit_ends(points_of(of_kind(lines, "ping_pong", between=between)))
        if line is not None:
            out.figures[f"network.{name}.startup"] = line.startup
            out.figures[f"network.{name}.per_byte"] = line.per_byte
            out.measurements[f"ping_pong_{name}"] = line.as_json()
        for one in of_kind(lines, "agreement", between=between):
            out.figures[f"network.{name}.step"] = one["seconds"] / steps(one["ranks"])
            out.measurements[f"agreement_{name}"] = {name: one[name] for name in ("ranks", "seconds")}


def _times_faster(lines: Sequence[Line], write: bool, cached: bool) -> list[dict[str, Any]]:
    """How much more all ranks move than one, for every size and order."""
    rows = []
    for many in of_kind(lines, "access", write=write, cached=cached):
        alone = of_kind(
            lines, "access", write=write, cached=cached, random=many["random"], size_bytes=many["size_bytes"], ranks=1
        )
        if many["ranks"] > 1 and alone:
            times = many["bytes_per_second"] / alone[0]["bytes_per_second"]
            rows.append({name: many[name] for name in ("random", "size_bytes", "ranks")} | {"times": round(times, 3)})
    return rows


def _typical_times(rows: Sequence[dict[str, Any]]) -> float:
    return max(1.0, statistics.median(float(row["times"]) for row in rows))


def _device_times(rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Of small requests, of which a device may work on several at once; and of large ones, where it is the bytes that take their time.

    At random places: ranks that read in order come between one another, and each loses what going on would have saved.
    """
    elsewhere = [row for row in rows if row["random"]]
    sizes = sorted(row["size_bytes"] for row in elsewhere)
    small, large = ([row for row in elsewhere if row["size_bytes"] == size] for size in (sizes[0], sizes[-1]))
    return _typical_times(small), _typical_times(large)


def _storage(lines: Sequence[Line], out: Result) -> None:
    for write, name in ((False, "read"), (True, "write")):
        section = f"storage.{name}"
        for cached, kind in ((True, "cached"), (False, "device")):
            sizes = [
                one
                for one in of_kind(lines, "access", write=write, cached=cached, ranks=1)
                if one["size_bytes"] >= PAGE_BYTES
            ]
            in_order = [one for one in sizes if not one["random"]]
            line = fit(points_of(in_order))
            if line is None:
                continue
            out.figures[f"{section}.{kind}_per_byte"] = line.per_byte
            out.measurements[f"{kind}_{name}"] = line.as_json()
            elsewhere = points_of([one for one in sizes if one["random"]])
            if not cached:
                out.figures[f"{section}.device_call"] = line.startup
                if (call := extra(elsewhere, line.per_byte)) is not None:
                    out.figures[f"{section}.device_random_call"] = call
            out.measurements[f"{kind}_random_{name}"] = [
                {"size_bytes": size, "seconds": seconds} for size, seconds in elsewhere
            ]
            if faster := _times_faster(lines, write, cached):
                out.measurements[f"{kind}_{name}_all_ranks"] = faster
                if cached:
                    out.figures[f"{section}.cached_ranks"] = _typical_times(faster)
                elif any(row["random"] for row in faster):
                    ranks, streams = _device_times(faster)
                    out.figures |= {f"{section}.device_ranks": ranks, f"{section}.device_streams": streams}
        for one in of_kind(lines, "access", write=write, cached=True, ranks=1, size_bytes=8):
            out.figures[f"{section}.cached_call"] = one["seconds"]


def _file(lines: Sequence[Line], in_memory: bool, out: Result) -> None:
    for one in of_kind(lines, "new_pages"):
        pages = one["size_bytes"] / PAGE_BYTES
        out.figures["file.new_page"] = max(0.0, (one["seconds_new"] - one["seconds_again"]) / pages)
        out.measurements["new_pages"] = {name: one[name] for name in ("size_bytes", "seconds_new", "seconds_again")}
    for kind in ("sync", "open"):
        for one in of_kind(lines, kind):
            out.figures[f"file.{kind}"] = one["seconds"]
    size = 1 << 20
    seconds = [
        of_kind(lines, "access", write=True, cached=cached, random=False, ranks=1, size_bytes=size)
        for cached in (True, False)
    ]
    if all(seconds):
        times = seconds[1][0]["seconds"] / seconds[0][0]["seconds"]
        # A file system in memory has nothing behind its pages.
        out.figures["file.cached"] = 1.0 if in_memory or times > CACHED_TIMES else 0.0
        out.measurements["cached_times_faster"] = round(times, 2)


def _memory(lines: Sequence[Line], out: Result) -> None:
    for one in of_kind(lines, "copy"):
        near = one["near_seconds_per_byte"]
        out.figures["memory.copy_per_byte"] = one["far_seconds_per_byte"]
        out.figures["memory.copy_near_per_byte"] = near
        out.figures["memory.piece"] = max(0.0, one["piece_seconds"] - one["piece_bytes"] * near)
    names = {
        "read_seconds": "fault_read",
        "write_seconds": "fault_write",
        "new_seconds": "fault_new",
        "map_seconds": "map",
    }
    for one in of_kind(lines, "faults"):
        for name, figure in names.items():
            out.figures[f"memory.{figure}"] = one[name]


def figures_of(lines: Sequence[Line], in_memory: bool) -> Result:
    """Everything that the lines tell.  `in_memory`: the file system has no device.  Raises ValueError on lines that the program does not print."""
    out = Result({}, {})
    parts: tuple[Callable[[], None], ...] = (
        lambda: _network(lines, out),
        lambda: _storage(lines, out),
        lambda: _file(lines, in_memory, out),
        lambda: _memory(lines, out),
    )
    try:
        for part in parts:
            part()
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"a line of the calibration program is not as expected: {error!r}") from error
    return out


def based_on(figures: dict[str, float], in_memory: bool, of_several_nodes: bool) -> str:
    """The built-in profile whose figures stand for those that were not measured."""
    if in_memory:
        return "tmpfs"
    if of_several_nodes:
        return "lustre"
    call = figures.get("storage.read.device_random_call", 1e-4)
    return "hdd" if call > 2e-3 else "ssd" if call > 3e-5 else "nvm"
