"""Runs every check of tests/tidy.py on the tree, and each check on a small tree where it must find something."""

import subprocess
import sys

import pytest
import tidy


@pytest.mark.parametrize("name", tidy.CHECKS)
def test_the_tree_is_tidy(name):
    assert [str(finding) for finding in tidy.CHECKS[name]()] == []


@pytest.fixture
def tree(tmp_path):
    def make(files: dict[str, str]):
        rooms = "penstock_room(base base)\npenstock_room(store store base)\npenstock_room(disk store/disk store)\n"
        for name, text in {"cmake/rooms.cmake": rooms, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("name", "include", "expected"),
    [
        ("src/base/a.h", '"store/store.h"', "base may not see store"),
        ("src/base/a.h", "<unistd.h>", "base is pure"),
        ("src/store/a.h", "<mpi.h>", "mpi.h may only be seen in"),
        ("src/store/a.h", '"store/disk/d.h"', "store may not see store/disk"),
        ("src/store/a.h", '"elsewhere/d.h"', "is in no room"),
        ("src/elsewhere/a.h", "<vector>", "lies in no room"),
        ("src/store/disk/a.cpp", '"base/b.h"', ""),
        ("src/store/disk/a.cpp", "<unistd.h>", ""),
        ("src/preload/a.cpp", "<mpi.h>", ""),
    ],
)
def test_include_map(tree, name, include, expected):
    findings = tidy.check_includes(tree({name: f"// For a test.\n#include {include}\n"}))
    assert [expected in str(finding) for finding in findings] == ([True] if expected else [])


def test_rooms_that_do_not_exist(tree):
    top = tree({"cmake/more.cmake": "penstock_room(file file nowhere)\n"})
    with pytest.raises(ValueError, match="nowhere"):
        tidy.rooms(top)


def test_header_that_needs_another_first(tree):
    top = tree({"src/base/good.h": "#pragma once\n#include <string>\ninline std::string f() { return {}; }\n"})
    assert tidy.check_headers_alone(top) == []
    (top / "src/base/bad.h").write_text("#pragma once\nstd::string g();\n")
    assert ["does not compile alone" in str(finding) for finding in tidy.check_headers_alone(top)] == [True]


def test_test_that_nothing_runs(tree):
    files = {
        "cmake/tests.cmake": "file(GLOB s ${CMAKE_SOURCE_DIR}/tests/${kind}/*_test.cpp)\nadd_executable(x tests/mpi/named.c)\n",
        "tests/unit/a_test.cpp": "",
        "tests/mpi/named.c": "",
        "tests/mpi/dead.c": "",
        "tests/python/test_x.py": "",
        "tests/python/helper.py": "",
        "tests/taken/run.py": "for path in HERE.glob('*.c'): pass",
        "tests/taken/any.c": "",
        "tests/abi/test_named.py": "",
        "cmake/abi_tests.cmake": "set(tests abi/named taken/run)\n",
        "tests/lost/run.py": "",
    }
    findings = tidy.check_tests_run(tree(files))
    assert sorted(finding.file for finding in findings) == [
        "tests/lost/run.py",
        "tests/mpi/dead.c",
        "tests/python/helper.py",
    ]


@pytest.mark.parametrize("text", ["see py" + "pi.org", "/ro" + "ot/x", "TO" + "DO: later", "/wo" + "rk/tree"])
def test_words(tree, text):
    findings = tidy.check_words(tree({"a.md": f"fine\n{text}\n"}))
    assert [(finding.file, finding.line) for finding in findings] == [("a.md", 2)]


def test_words_that_may_stand():
    for text in ("network/x", "docs/work/x", "mkstemp XXXXXX", "${HOME}/rooted"):
        assert not any(tidy.re.search(pattern, text) for pattern in tidy.BANNED.values()), text


def test_lengths_of_functions():
    text = """
namespace a {
// void commented() {
// }
struct S {
  int f() const { return 1; }
  int value = 0;
};
int g(int x) {
  if (x) {
    return '{';
  }
  auto h = [&] { return "}{"; };
  return h()[0];
}
enum class E { kOne };
}  // namespace a
"""
    assert sorted(tidy.function_lengths_cpp(text)) == [1, 7]
    assert list(tidy.function_lengths_python("def f():\n    return 1\n")) == [2]


def test_command_line():
    answer = subprocess.run([sys.executable, tidy.__file__, "--sizes"], capture_output=True, text=True, check=True)
    assert "functions, median" in answer.stdout
