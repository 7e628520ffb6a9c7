"""Asks penstock-model: one JSON object a line there, one a line back.  Knows no operation; src/model/program/ has them."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from penstock import paths
from penstock.failure import Failure

PROGRAM = "penstock-model"
SECONDS_MOST = 60.0


def answers(requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One answer for each request, in order; one that could not be answered has "error"."""
    program = paths.program(PROGRAM)
    text = "".join(json.dumps(request, allow_nan=False) + "\n" for request in requests)
    try:
        done = subprocess.run([program], input=text, capture_output=True, text=True, timeout=SECONDS_MOST, check=False)
    except FileNotFoundError:
        raise Failure(f"{program} is not there: build it (make build) or install again") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"{program} can not be asked: {error}") from error
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) != len(requests):
        said = done.stderr.strip()[:500]
        raise Failure(
            f"{program}: exit code {done.returncode}, {len(lines)} answers to {len(requests)} questions: {said}"
        )
    return [json.loads(line) for line in lines]


def ask(requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same where every request must be answered."""
    found = answers(requests)
    for request, one in zip(requests, found, strict=True):
        if "error" in one:
            raise Failure(f"{PROGRAM}, operation {request.get('operation')}: {one['error']}")
    return found
