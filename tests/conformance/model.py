"""What a conformance test, its result and its verdict are.  Knows nothing of files, processes or any particular suite."""

from dataclasses import asdict, dataclass, field
from typing import ClassVar

PASS, FAIL, TIMEOUT, CRASH, SKIP = "pass", "fail", "timeout", "crash", "skip"
OUTCOMES = (PASS, FAIL, TIMEOUT, CRASH, SKIP)

REGRESSION, IMPROVEMENT, PASSES, FAILS_NATIVELY_TOO, DIFFERS, SKIPPED = (
    "regression",
    "improvement",
    "passes",
    "fails natively too",
    "differs",
    "skipped",
)


class Missing(Exception):
    """A suite, a compiler or an MPI that was asked for and cannot be had here; the text says why and what would help."""


@dataclass(frozen=True)
class Step:
    """One program of a test.  `ranks` 0: run directly, without a launcher and never under the preload (a checker of files)."""

    program: str
    arguments: tuple[str, ...] = ()
    ranks: int = 1
    rule: str = "exit"
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Test:
    """Steps that run one after the other in a fresh directory; the test passes when all of them do."""

    __test__: ClassVar[bool] = False  # no test of pytest's
    suite: str
    name: str
    steps: tuple[Step, ...]
    time_limit_seconds: float = 120.0
    memory_gib: float = 0.0
    disk_gib: float = 0.0
    copies: tuple[str, ...] = ()  # files that the programs expect in their directory
    skip: str = ""  # why it is not run, naming the implementation where that is the reason
    differs: str = ""  # why it may fail with us although it passes natively: what it asks that the standard does not
    calls: tuple[str, ...] = ()  # MPI file functions that it names, in lower case, where its programs cannot be asked

    @property
    def ranks(self) -> int:
        return max((step.ranks for step in self.steps), default=0)

    @property
    def identity(self) -> str:
        return f"{self.suite}:{self.name}@{self.ranks}"


@dataclass
class Result:
    outcome: str
    reason: str = ""
    seconds: float = 0.0
    cases: dict[str, str] = field(
        default_factory=dict
    )  # outcomes inside the test, where its program tells them one by one
    output: str = ""  # the end of what it printed, when it did not pass
    log: str = ""

    def as_dict(self) -> dict:
        return {key: value for key, value in asdict(self).items() if value not in ("", {})}

    @staticmethod
    def of(row: dict) -> "Result":
        return Result(**row)


@dataclass
class Suite:
    """A suite that was fetched and built for one MPI: its tests, where it came from, and the programs that should be there and are not."""

    name: str
    tests: list[Test]
    sources: list[dict]  # {"name", "version", "files": {file name: sha256}}
    missing: dict[str, str] = field(default_factory=dict)  # test name -> why its program could not be built


def lost_cases(native: Result, ours: Result) -> list[str]:
    """Cases inside the test that pass natively and do not with us (a case that was never reached counts as lost)."""
    return sorted(
        name
        for name, outcome in native.cases.items()
        if outcome == PASS and ours.cases.get(name, FAIL) not in (PASS, SKIP)
    )


def gained_cases(native: Result, ours: Result) -> list[str]:
    return sorted(
        name
        for name, outcome in ours.cases.items()
        if outcome == PASS and native.cases.get(name, FAIL) not in (PASS, SKIP)
    )


def verdict(native: Result, ours: Result, differs: str = "") -> str:
    if SKIP in (native.outcome, ours.outcome):
        return SKIPPED
    if native.outcome == PASS:
        if ours.outcome == PASS:
            return PASSES
        return (
            DIFFERS if differs and ours.outcome == FAIL else REGRESSION
        )  # a crash or a hang is never a matter of opinion
    if ours.outcome == PASS:
        return PASSES if native.outcome == TIMEOUT else IMPROVEMENT  # a busy machine is no fault of the native library
    return REGRESSION if lost_cases(native, ours) else FAILS_NATIVELY_TOO
