"""What the compiler does not check: the include map, headers that stand alone, tests that run, words that must not appear.

    tests/tidy.py [--sizes]      exit code 1 when anything is found

Reads cmake/rooms.cmake for who may see whom, so that there is one map.  pytest runs every check (tests/python/test_tidy.py).
"""

import argparse
import ast
import concurrent.futures
import fnmatch
import hashlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent

# Rooms that no penstock_room line describes, because they are built once per MPI.
FLAVOUR_ROOMS = {
    "comm/mpi": ["comm"],
    "mpi": ["file", "comm/mpi", "store/posix", "store/pinned", "store/memory", "store/fault", "store/trace", "store/emulated"],
    "abi": ["mpi"],
    "preload": ["abi"],
}
MAY_INCLUDE_MPI = ("comm/mpi", "mpi", "abi", "preload")
PURE_ROOMS = ("base", "hints", "access", "plan", "model")
SYSTEM_HEADER = re.compile(
    r"unistd\.h|fcntl\.h|sys/.*|linux/.*|poll\.h|dlfcn\.h|signal\.h|csignal|sched\.h|pthread\.h|netdb\.h|netinet/.*|arpa/.*|"
    r"spawn\.h|aio\.h|dirent\.h|fstream|filesystem|thread"
)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.MULTILINE)
# Written so that this file does not contain them.
BANNED = {
    "a package registry's host": r"py[p]i\.org|pythonhosted\.o[r]g|crates\.i[o]\b|npm[j]s\.|proxy\.golan[g]|deb\.debia[n]\.org",
    "a path of somebody's machine": r"(?<![\w.$}])/(?:wor[k]|roo[t]|hom[e])/\w|/tmp/mpi[s]|\.pyen[v]|/opt/whee[l]s",
    "a tool that wrote it": r"(?i)\bclau[d]e\b|\banthropi[c]\b|\bchatgp[t]\b|\bcopilo[t]\b|\bcode[x]\b",
    "an unfinished mark": r"\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K])\b",
}
SOURCE_SUFFIXES = (".cpp", ".cc", ".c", ".h", ".f90", ".F90", ".f", ".py", ".sh")


@dataclass(frozen=True)
class Finding:
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def files_of_the_project(top: Path = TOP) -> list[Path]:
    """What git tracks or would track, that exists and is no link."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=top,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        names = [top / name for name in listing.stdout.decode().split("\0") if name]
    else:  # an archive without its history
        names = [path for path in top.rglob("*") if not {"build", ".venv", ".git"} & set(path.relative_to(top).parts)]
    return sorted(path for path in names if path.is_file() and not path.is_symlink())


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


# --- the include map -------------------------------------------------------------------------------------------------------


def rooms(top: Path = TOP) -> dict[str, list[str]]:
    """Directory of each room -> directories it may see directly."""
    directories: dict[str, str] = {}
    sees: dict[str, list[str]] = {}
    for path in sorted((top / "cmake").glob("*.cmake")):
        for match in re.finditer(r"^\s*penstock_room\(([^)]*)\)", path.read_text(), re.MULTILINE):
            words = match[1].split()
            if "$" in match[1]:
                continue  # the function's own definition
            directories[words[0]] = words[1]
            sees[words[1]] = words[2:]
    unknown = {name for names in sees.values() for name in names} - set(directories)
    if unknown:
        raise ValueError(f"cmake/rooms.cmake names rooms that it does not define: {', '.join(sorted(unknown))}")
    out = {directory: [directories[name] for name in names] for directory, names in sees.items()}
    for directory, seen in FLAVOUR_ROOMS.items():
        out.setdefault(directory, seen)
    return out


def visible(room: str, map_of_rooms: dict[str, list[str]]) -> set[str]:
    """The room itself and everything it sees, through others too."""
    seen: set[str] = set()
    waiting = [room]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += map_of_rooms.get(name, [])
    return seen


def room_of(name: str, map_of_rooms: dict[str, list[str]]) -> str:
    """The room that a path below src/ lies in: the longest one that fits, or ""."""
    parts = name.split("/")[:-1]
    while parts:
        if "/".join(parts) in map_of_rooms:
            return "/".join(parts)
        parts.pop()
    return ""


def check_includes(top: Path = TOP) -> list[Finding]:
    map_of_rooms = rooms(top)
    findings = []
    for path in files_of_the_project(top):
        name = path.relative_to(top).as_posix()
        if not name.startswith("src/") or path.suffix not in (".h", ".cpp", ".c", ".cc"):
            continue
        room = room_of(name.removeprefix("src/"), map_of_rooms)
        if not room:
            findings.append(Finding(name, 1, "lies in no room of cmake/rooms.cmake"))
            continue
        allowed = visible(room, map_of_rooms)
        text = path.read_text()
        for match in INCLUDE.finditer(text):
            problem = problem_of_include(match[1], match[2], room, allowed, map_of_rooms)
            if problem:
                findings.append(Finding(name, line_of(text, match.start(1)), problem))
    return findings


def problem_of_include(
    bracket: str, header: str, room: str, allowed: set[str], map_of_rooms: dict[str, list[str]]
) -> str:
    if header == "mpi.h":
        return (
            "" if room in MAY_INCLUDE_MPI else f"mpi.h may only be seen in {', '.join(MAY_INCLUDE_MPI)}, not in {room}"
        )
    if bracket == "<":
        if room in PURE_ROOMS and SYSTEM_HEADER.fullmatch(header):
            return f"{room} is pure: <{header}> is for rooms with effects"
        return ""
    other = room_of(header, map_of_rooms)
    if not other:
        return "" if "/" not in header else f'"{header}" is in no room'
    return "" if other in allowed else f'{room} may not see {other} ("{header}")'


# --- headers that stand alone ----------------------------------------------------------------------------------------------


def generate_headers(into: Path, top: Path = TOP) -> None:
    """What cmake/generated.cmake would make, without CMake."""
    for path in sorted((top / "cmake").glob("*.cmake")):
        for match in re.finditer(r"^\s*penstock_generate\((\S+)\s+(\S+)\s+(\w+)\)", path.read_text(), re.MULTILINE):
            output, table, name = match.groups()
            if "$" in match[0] or not output.endswith(".h"):
                continue
            program = top / "tools" / "gen" / "generate.py"
            words = [sys.executable, program, name, top / "table" / f"{table}.toml", into / output]
            subprocess.run(words, check=True)


def mpi_include_options() -> list[str] | None:
    """Where some mpi.h is, or None when there is no MPI here."""
    for wrapper, question in (("mpicxx.mpich", "-show"), ("mpicxx.openmpi", "--showme:compile"), ("mpicxx", "-show")):
        if shutil.which(wrapper):
            answer = subprocess.run([wrapper, question], capture_output=True, text=True, check=False)
            if answer.returncode == 0:
                return [word for word in answer.stdout.split() if word.startswith("-I")]
    return None


def check_headers_alone(top: Path = TOP) -> list[Finding]:
    """Compiles each header by itself, two at a time.  Remembers in build/ what compiled, by the contents of all headers."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        return [Finding("src", 1, "no C++ compiler here: headers were not compiled")]
    headers = [
        path for path in files_of_the_project(top) if path.suffix == ".h" and "src" in path.relative_to(top).parts[:1]
    ]
    state = hashlib.sha256()
    for path in [*headers, *sorted((top / "table").glob("*.toml")), *sorted((top / "tools" / "gen").glob("*.py"))]:
        state.update(path.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    stamp = top / "build" / "headers-alone"
    if stamp.is_file() and stamp.read_text() == state.hexdigest():
        return []
    with tempfile.TemporaryDirectory() as generated:
        generate_headers(Path(generated), top)
        mpi = mpi_include_options()
        options = [
            "-std=c++20",
            "-fsyntax-only",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-x",
            "c++",
        ]
        options += ["-I", str(top / "src"), "-I", generated, *(mpi or [])]

        def compile_alone(header: Path) -> list[Finding]:
            name = header.relative_to(top).as_posix()
            if mpi is None and room_of(name.removeprefix("src/"), rooms(top)) in MAY_INCLUDE_MPI:
                return []
            source = f'#include "{name.removeprefix("src/")}"\n'
            words = [compiler, *options, "-"]
            answer = subprocess.run(words, input=source, capture_output=True, text=True, timeout=120, check=False)
            if answer.returncode == 0 and not answer.stderr:
                return []
            first = next((line for line in answer.stderr.splitlines() if "error" in line or "warning" in line), "")
            return [Finding(name, 1, f"does not compile alone: {first.strip()}")]

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            findings = [finding for found in pool.map(compile_alone, headers) for finding in found]
    if not findings:
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(state.hexdigest())
    return findings


# --- tests that run --------------------------------------------------------------------------------------------------------


# Names that say nothing without their directory.
GENERIC_NAMES = {"run", "build", "main", "model", "execute", "program", "check", "calls"}


def mentions(path: Path, other: Path, text: str) -> bool:
    """Whether `text`, the contents of `other`, names the test file `path` in one of the ways that tests are named in."""
    if other.parent == path.parent and other.stem == "run" and re.search(r"\b(?:i?glob|rglob|iterdir|scandir)\(", text):
        return True  # a runner that takes what lies beside it
    short = path.stem.removeprefix("test_")
    if re.search(rf"\b{re.escape(path.parent.name)}/(?:{re.escape(path.stem)}|{re.escape(short)})\b", text):
        return True
    from_here_or_above = other.parent in path.parents and re.search(rf"\b{re.escape(path.stem)}\b", text)
    if from_here_or_above and other.parent.name != "tests":
        return True
    return path.stem not in GENERIC_NAMES and re.search(rf"\b{re.escape(path.stem)}\b", text) is not None


def check_tests_run(top: Path = TOP) -> list[Finding]:
    """Every program file below tests/ is built or started by something: a pattern or a name in CMake, tools/ or another test."""
    files = files_of_the_project(top)
    test_files = [
        path for path in files if path.relative_to(top).parts[0] == "tests" and path.suffix in SOURCE_SUFFIXES
    ]
    starters = [
        path
        for path in files
        if path.name in ("CMakeLists.txt", "Makefile")
        or path.suffix == ".cmake"
        or path.relative_to(top).parts[0] in ("tools", "tests")
    ]
    texts = {path: path.read_text(errors="replace") for path in starters if path.stat().st_size < 1 << 20}
    patterns = set()
    for path, text in texts.items():
        if path.suffix == ".cmake" or path.name == "CMakeLists.txt":
            for word in re.findall(r"tests/[^\s\"')]*\*[^\s\"')]*", text):
                patterns.add(re.sub(r"\$\{\w+\}", "*", word))
    findings = []
    for path in test_files:
        name = path.relative_to(top).as_posix()
        by_pytest = name.startswith("tests/python/") and (path.name.startswith("test_") or path.name == "conftest.py")
        if by_pytest or any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
            continue
        if not any(other != path and mentions(path, other, text) for other, text in texts.items()):
            findings.append(Finding(name, 1, "nothing builds or starts this file"))
    return findings


# --- words, versions, sizes ------------------------------------------------------------------------------------------------


def check_words(top: Path = TOP) -> list[Finding]:
    findings = []
    for path in files_of_the_project(top):
        if path.stat().st_size > 4 << 20:
            continue
        data = path.read_bytes()
        if b"\0" in data[:4096]:
            continue
        text = data.decode(errors="replace")
        for what, pattern in BANNED.items():
            for match in re.finditer(pattern, text):
                findings.append(
                    Finding(path.relative_to(top).as_posix(), line_of(text, match.start()), f"{what}: {match[0]!r}")
                )
    return findings


def check_versions(top: Path = TOP) -> list[Finding]:
    """The version is CMake's; where it has to be written again it is the same."""
    match = re.search(r"project\(penstock VERSION (\S+)", (top / "CMakeLists.txt").read_text())
    if match is None:
        return [Finding("CMakeLists.txt", 1, "project() names no version")]
    places = {
        "python/penstock/__init__.py": f'__version__ = "{match[1]}"',
        "python/pyproject.toml": f'version = "{match[1]}"',
        **{
            path.relative_to(top).as_posix(): f'"Penstock {match[1]}"'
            for path in (top / "docs" / "man").glob("penstock*-run.1")
        },
        "docs/man/penstock.1": f'"Penstock {match[1]}"',
        "CHANGELOG.md": match[1],
    }
    return [
        Finding(name, 1, f"does not say version {match[1]}, as CMakeLists.txt does")
        for name, text in places.items()
        if text not in (top / name).read_text()
    ]


def check_first_lines(top: Path = TOP) -> list[Finding]:
    """Every source file starts by saying what it is for."""
    findings = []
    for path in files_of_the_project(top):
        if path.suffix not in (*SOURCE_SUFFIXES, ".cmake", ".toml"):
            continue
        lines = [line for line in path.read_text(errors="replace").splitlines()[:2] if not line.startswith("#!")]
        if (
            not lines
            or not lines[0].lstrip().startswith(("//", "#", '"""', "/*", "!", "<!--"))
            or lines[0].startswith("#include")
        ):
            findings.append(
                Finding(path.relative_to(top).as_posix(), 1, "the first line does not say what the file is for")
            )
    return findings


def without_comments(text: str) -> str:
    """C++ with comments and the insides of literals blanked, line by line where it was."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def function_lengths_cpp(text: str) -> Iterator[int]:
    """Lines from the head to the closing brace of every function that stands in a namespace or class."""
    text = re.sub(
        r"^\s*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m[0].count("\n"), without_comments(text), flags=re.MULTILINE
    )
    stack: list[tuple[str, int]] = []
    head_start = 0
    for match in re.finditer(r"[{};]", text):
        inside_function = any(kind != "scope" for kind, _ in stack)
        if match[0] == "{":
            head = text[head_start : match.start()].strip()
            if inside_function:
                kind = "block"
            elif re.search(r"\b(namespace|class|struct|union|extern)\b[^()]*$", head) and not head.endswith(")"):
                kind = "scope"
            else:
                kind = "function" if ")" in head else "block"
            first = head_start + len(text[head_start : match.start()]) - len(text[head_start : match.start()].lstrip())
            stack.append((kind, text.count("\n", 0, first)))
        elif match[0] == "}" and stack:
            kind, first_line = stack.pop()
            if kind == "function":
                yield text.count("\n", 0, match.start()) - first_line + 1
        if not any(kind != "scope" for kind, _ in stack):
            head_start = match.end()


def function_lengths_python(text: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def print_sizes(top: Path = TOP) -> None:
    """A mirror, not a gate."""
    lengths: dict[str, list[int]] = {"C++": [], "Python": []}
    file_lines: dict[str, list[int]] = {"C++": [], "Python": []}
    for path in files_of_the_project(top):
        language = {".cpp": "C++", ".h": "C++", ".py": "Python"}.get(path.suffix)
        if language:
            text = path.read_text(errors="replace")
            file_lines[language].append(text.count("\n"))
            lengths[language] += (function_lengths_cpp if language == "C++" else function_lengths_python)(text)
    for language, values in lengths.items():
        if len(values) < 2:
            continue
        tenth = statistics.quantiles(values, n=10)[-1]
        long = sum(value > 70 for value in values)
        print(
            f"sizes: {language}: {len(values)} functions, median {statistics.median(values):.0f} lines, 90 % below {tenth:.0f}, "
            f"{100 * long / len(values):.1f} % over 70; {len(file_lines[language])} files, median "
            f"{statistics.median(file_lines[language]):.0f} lines, longest {max(file_lines[language])}"
        )


CHECKS = {
    "includes": check_includes,
    "headers alone": check_headers_alone,
    "tests run": check_tests_run,
    "words": check_words,
    "versions": check_versions,
    "first lines": check_first_lines,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", action="store_true", help="print the sizes only")
    if not parser.parse_args().sizes:
        findings = [finding for check in CHECKS.values() for finding in check()]
        for finding in findings:
            print(finding)
        print_sizes()
        return 1 if findings else 0
    print_sizes()
    return 0


if __name__ == "__main__":
    sys.exit(main())
