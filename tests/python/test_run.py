"""penstock run on a stand-in library: what is started, what is refused, what is told."""

import json
import os
import shlex
import signal
import subprocess
import time

import pytest
from conftest import TOP, compile_c, real_launchers, report_line


def test_plain_program(penstock, program, tmp_path):
    answer = penstock("run", program, "7")
    assert answer.returncode == 7
    assert answer.stdout == "the program's own output\n"
    assert "/data/out.nc" in answer.stderr and "mapped 90 %" in answer.stderr
    assert list(tmp_path.iterdir()) == [], "the temporary report is gone"


def test_an_interrupt_while_modules_are_read_is_no_traceback(penstock, tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    answer = penstock("info", environment={"PYTHONPATH": str(tmp_path)})
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "")


def test_script(penstock, program, tmp_path):
    script = tmp_path / "job.py"
    script.write_text(
        f"import subprocess, sys\nprint(sys.argv[1:])\nsys.exit(subprocess.call([{str(program)!r}, '3']))\n"
    )
    answer = penstock("run", "python3", "job.py", "--json", "--hints")
    assert answer.returncode == 3 and "['--json', '--hints']" in answer.stdout
    assert "/data/out.nc" in answer.stderr


def test_nothing_of_ours_is_left_in_a_python_program(monkeypatch, penstock, tmp_path):
    monkeypatch.delenv("PYTHONPATH", raising=False)  # which tools/test.py sets for the tests themselves
    (tmp_path / "job.py").write_text(
        "import os, sys\nprint(os.environ.get('PYTHONPATH'), [p for p in sys.path if 'penstock' in p])\n"
    )
    assert penstock("run", "python3", "job.py").stdout == "None []\n"


def test_modules_beside_the_job_are_not_taken_for_ours(penstock, program, tmp_path):
    for name in ("penstock.py", "platform.py", "typer.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong module')\n")
    assert penstock("run", program).returncode == 0


@pytest.mark.parametrize("says", ["HYDRA build details", "mpiexec (Open MPI) 5.0.11", "nothing known"])
def test_launcher(penstock, program, launcher, says):
    answer = penstock("run", launcher(says=says), "-n", "2", program, "5")
    assert answer.returncode == 5, answer.stderr
    assert "/data/out.nc" in answer.stderr


def test_dry_run_shows_open_mpi_exports(penstock, program, launcher, library):
    path = launcher(says="mpiexec (Open MPI) 5.0.11")
    answer = penstock("run", "--dry-run", "--strategy", "mapped", path, "-n", "1", program, ":", "-n", "2", program)
    assert answer.returncode == 0
    words = shlex.split(answer.stdout.splitlines()[-1])
    exports = [
        word for name in ("LD_PRELOAD", "PNETCDF_HINTS", "PENSTOCK_REPORT", "PENSTOCK_HINTS") for word in ("-x", name)
    ]
    assert words == [str(path), *exports, "-n", "1", str(program), ":", *exports, "-n", "2", str(program)]
    assert f"LD_PRELOAD={library}" in answer.stdout


def test_dry_run_starts_nothing(penstock, program, tmp_path):
    answer = penstock("run", "--dry-run", "--json", program, environment={"LD_PRELOAD": ""})
    plan = json.loads(answer.stdout)
    assert plan["words"] == [str(program)] and "PENSTOCK_REPORT" in plan["environment"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", real_launchers() or ["none"])
def test_real_launcher(penstock, program, name):
    if name == "none":
        pytest.skip("no MPI here")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    more = ["--oversubscribe"] if "openmpi" in name else []
    answer = penstock("run", "--json", name, *more, "-n", "2", program, environment=root)
    assert answer.returncode == 0, answer.stderr
    assert len(json.loads(answer.stdout)["files"]) == 2, "both ranks of the stand-in wrote a line"


def test_json_keeps_stdout_for_itself(penstock, program):
    answer = penstock("run", "--json", program, "4")
    found = json.loads(answer.stdout)
    assert answer.returncode == 4 and found["exit_code"] == 4 and found["files"][0]["calls"] == 12
    assert "the program's own output" in answer.stderr


def test_report_is_kept_and_appended_to(penstock, program, tmp_path):
    path = tmp_path / "io.jsonl"
    path.write_text(json.dumps(report_line(file="of an earlier run")) + "\n")
    answer = penstock("run", "--report", "io.jsonl", program)
    assert "of an earlier run" not in answer.stderr and "/data/out.nc" in answer.stderr
    assert len(path.read_text().splitlines()) == 2


def test_report_that_can_not_be_written(penstock, program):
    answer = penstock("run", "--report", "no/such/place", program)
    assert answer.returncode == 1 and answer.stdout == "" and "can not be written" in answer.stderr


def test_bad_line_of_the_library_is_told(penstock, program):
    answer = penstock("run", program, environment={"FAKE_LINE": "{torn"})
    assert answer.returncode == 0 and "line 1: no JSON" in answer.stderr


def test_no_file_seen(penstock):
    assert "no MPI file was closed" in penstock("run", "true").stderr


def test_a_program_that_failed_is_told_as_that(penstock, program):
    answer = penstock("run", program, "7")
    assert "ended with exit code 7" in answer.stderr and "/data/out.nc" in answer.stderr
    answer = penstock("run", "false")
    assert "ended with exit code 1" in answer.stderr and "no MPI file was closed" not in answer.stderr
    assert "exit code" not in penstock("run", program).stderr


def test_bypass_by_the_environment_is_told_too(penstock, program):
    answer = penstock("run", program, environment={"PENSTOCK_BYPASS": "1"})
    assert answer.returncode == 0 and "went to the native MPI library" in answer.stderr


def test_bypass(penstock, program):
    answer = penstock("run", "--bypass", program)
    assert answer.returncode == 0 and "native MPI library, as asked" in answer.stderr


def test_environment_of_the_program(penstock, library):
    answer = penstock(
        "run",
        "--hints",
        "*.nc:penstock_strategy=mapped",
        "env",
        environment={"LD_PRELOAD": "libm.so.6", "PNETCDF_HINTS": "a=b"},
    )
    found = dict(line.split("=", 1) for line in answer.stdout.splitlines() if "=" in line)
    assert found["LD_PRELOAD"] == f"libm.so.6:{library}"
    assert found["PNETCDF_HINTS"] == "a=b;nc_driver=mpiio"
    assert found["PENSTOCK_HINTS"] == "*.nc:penstock_strategy=mapped"
    assert found["PENSTOCK_REPORT"].startswith("/")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--strategy", "best", "true"], "penstock_strategy takes"),
        (["--hints", "*:penstock_stratgy=mapped", "true"], "did you mean"),
        (["--no-such-option", "true"], "--no-such-option"),
        (["no-such-program"], "there is no such program"),
        (["./mpiexec", "-n", "2", "true"], "there is no such program"),
        ([], "LAUNCHER"),
    ],
)
def test_usage(penstock, words, expected):
    answer = penstock("run", *words)
    assert answer.returncode == 2 and answer.stdout == "" and expected in answer.stderr


def test_static_program_is_refused(penstock, needs_static, launcher):
    for line in ([needs_static], [launcher(), "-n", "2", "env", "A=b", needs_static]):
        answer = penstock("run", *line)
        assert (
            answer.returncode == 1
            and "linked statically" in answer.stderr
            and "penstock-mpich.options" in answer.stderr
        )


def test_mpi_inside_is_refused(penstock, tmp_path):
    path = compile_c("int PMPI_Init(void) { return 0; } int main(void) { return PMPI_Init(); }", tmp_path / "inside")
    answer = penstock("run", path)
    assert answer.returncode == 1 and "MPI library linked in statically" in answer.stderr


def test_other_machine_is_refused(penstock, program, tmp_path):
    path = tmp_path / "foreign"
    data = bytearray(program.read_bytes())
    data[18:20] = (243).to_bytes(2, "little")
    path.write_bytes(data)
    path.chmod(0o755)
    answer = penstock("run", path)
    assert answer.returncode == 1 and "RISC-V" in answer.stderr


def test_set_user_id_is_refused(penstock, program, tmp_path):
    path = tmp_path / "setuid"
    path.write_bytes(program.read_bytes())
    path.chmod(0o4755)
    answer = penstock("run", path)
    assert answer.returncode == 1 and "set-user-id" in answer.stderr


def test_no_library(penstock, program, tmp_path):
    answer = penstock("run", program, environment={"PENSTOCK_LIBDIR": str(tmp_path)})
    assert answer.returncode == 1 and "make build" in answer.stderr


def test_program_that_a_signal_ended(penstock):
    assert penstock("run", "sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL


def test_a_signal_reaches_the_program(library, tmp_path):
    ready = tmp_path / "ready"
    script = f"trap 'exit 42' TERM; : > {shlex.quote(str(ready))}; while :; do sleep 0.05; done"
    process = subprocess.Popen(
        [TOP / "bin" / "penstock", "run", "sh", "-c", script],
        env={**os.environ, "PENSTOCK_LIBDIR": str(library.parent)},
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 60
    while not ready.exists() and time.monotonic() < until:
        time.sleep(0.02)
    process.terminate()
    assert process.wait(timeout=60) == 42


def test_a_signal_before_the_start_waits_for_the_program():
    from penstock.commands import run

    with run.Signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        process = subprocess.Popen(["sleep", "60"])
        signals.go_to(process)
        assert process.wait(timeout=60) == -signal.SIGTERM


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT"])
def test_a_signal_that_was_ignored_stays_ignored_in_the_program(penstock, name):
    number = getattr(signal, name)
    show = f"import signal; print(signal.getsignal({int(number)}) == signal.SIG_IGN)"
    assert (
        penstock("run", "python3", "-c", show, preexec_fn=lambda: signal.signal(number, signal.SIG_IGN)).stdout
        == "True\n"
    )
    # Whoever started the tests may ignore it himself.
    heeded = penstock("run", "python3", "-c", show, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    assert heeded.stdout == "False\n"


def test_exec(penstock, program, library):
    command = TOP / "bin" / "penstock-exec"
    assert penstock(program, "6", program=command).returncode == 6
    found = penstock(
        "sh", "-c", 'echo "$LD_PRELOAD|$PNETCDF_HINTS"', program=command, environment={"LD_PRELOAD": "libm.so.6"}
    )
    assert found.stdout == f"libm.so.6:{library}|nc_driver=mpiio\n"
    again = penstock(command, "sh", "-c", 'echo "$LD_PRELOAD"', program=command)
    assert again.stdout == f"{library}\n"
    assert penstock(program=command).returncode == 2
    missing = penstock("true", program=command, environment={"PENSTOCK_LIBDIR": "/nowhere"})
    assert missing.returncode == 1 and "libpenstock.so is not in" in missing.stderr
