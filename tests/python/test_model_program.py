"""penstock-model as a process: one answer for every line, whatever the line has, and an orderly end."""

import json
import random
import subprocess

import pytest
from penstock import model, paths
from penstock.failure import Failure

PROGRAM = paths.program(model.PROGRAM)

pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason="build/release has no penstock-model")

REQUEST = {
    "operation": "paper",
    "platform": {
        "startup_seconds": 1,
        "transfer_seconds_per_mb": 1,
        "sequential_mb_per_second": 1,
        "random_mb_per_second": 1,
    },
    "workload": {"total_mb": 1, "buffer_mb": 1, "ranks": 2, "aggregators": 1},
}
GOOD = json.dumps(REQUEST).encode()


def talk(data: bytes) -> list[dict]:
    done = subprocess.run([PROGRAM], input=data, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stderr == b""
    assert not done.stdout or done.stdout.endswith(b"\n")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_nothing_and_a_last_line_without_its_end():
    assert talk(b"") == []
    assert [one["operation"] for one in talk(GOOD + b"\n" + GOOD)] == ["paper", "paper"]


def test_wrong_lines_do_not_keep_later_ones_from_their_answers():
    lines = [
        b"",
        b"\0",
        b"\xff\xfe{}",
        b"[" * 5000,
        b"{}",
        b"9" * 5000,
        b'{"operation":"\\ud800"}',
        GOOD + b"\r",
        b"true",
    ]
    found = talk(b"\n".join([*lines, GOOD]) + b"\n")
    assert len(found) == len(lines) + 1
    assert ["error" in one for one in found] == [True] * 7 + [False, True, False]
    assert "collective_seconds" in found[-1]


def test_a_line_that_is_too_long_is_dropped_as_a_whole():
    found = talk(b" " * (3 << 20) + GOOD + b"\n" + GOOD + b"\n")
    assert "longer than" in found[0]["error"] and "collective_seconds" in found[1]
    (last,) = talk(b"x" * (2 << 20))
    assert "longer than" in last["error"]


def test_bytes_at_random_are_all_answered():
    generator = random.Random(4)
    lines = []
    for _ in range(500):
        line = bytearray(GOOD)
        for _ in range(generator.randrange(1, 6)):
            place = generator.randrange(len(line))
            line[place : place + generator.randrange(3)] = generator.randbytes(generator.randrange(3))
        lines.append(bytes(line).replace(b"\n", b" "))
    found = talk(b"\n".join([*lines, GOOD]) + b"\n")
    assert len(found) == 501 and "collective_seconds" in found[-1]
    assert all(("error" in one) != ("collective_seconds" in one) for one in found)


def test_it_ends_when_nobody_listens():
    with subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.close()
        try:
            process.stdin.write(GOOD + b"\n" + GOOD + b"\n")
            process.stdin.close()
        except BrokenPipeError:
            pass
        assert process.wait(timeout=30) != 0


def test_the_command_line_tells_what_is_wrong(monkeypatch, tmp_path):
    with pytest.raises(Failure, match="operation paper: platform: expected a value"):
        model.ask([{"operation": "paper"}])
    monkeypatch.setenv("PENSTOCK_LIBDIR", str(tmp_path / "lib"))
    with pytest.raises(Failure, match="is not there: build it"):
        model.ask([REQUEST])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/penstock-model").write_text("#!/bin/sh\necho '{}'; exit 3\n")
    (tmp_path / "bin/penstock-model").chmod(0o755)
    with pytest.raises(Failure, match="exit code 3, 1 answers to 1 questions"):
        model.ask([REQUEST])
