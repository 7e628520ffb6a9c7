"""penstock.hints and the manual page that is generated from the same table."""

import shutil
import subprocess
import tomllib

import hints_man
import pytest
from conftest import TOP
from penstock import hints, paths
from penstock.failure import USAGE, Failure


@pytest.mark.parametrize(
    ("entry", "parts"),
    [
        ("*.nc:cb_nodes=4", ("*.nc", "cb_nodes", "4")),
        ("cb_nodes=4", ("*", "cb_nodes", "4")),
        (r"a\:b*:key=value", (r"a\:b*", "key", "value")),
        ("/d/x:key=a=b:c", ("/d/x", "key", "a=b:c")),
        ("x: key = v ", ("x", "key", "v")),
        ("key=", ("*", "key", "")),
    ],
)
def test_entry(entry, parts):
    assert hints.split_entry(entry) == parts


@pytest.mark.parametrize("entry", ["key", "*.nc:key", ":key=value", "=value", "*:=value"])
def test_entry_that_is_none(entry):
    with pytest.raises(Failure, match="expected glob:key=value") as failure:
        hints.check(entry)
    assert failure.value.exit_code == USAGE


def test_misspelt_name_of_ours():
    with pytest.raises(Failure, match="did you mean penstock_strategy"):
        hints.check("*:penstock_stratgy=mapped")


def test_wrong_choice_and_fact():
    with pytest.raises(Failure, match="penstock_strategy takes automatic or"):
        hints.check("penstock_strategy=best")
    with pytest.raises(Failure, match="can not be set"):
        hints.check("romio_visibility_immediate=true")


def test_foreign_names_pass():
    assert hints.check("*:romio_cb_write=enable;cb_nodes=4\nx:y=z") == [
        "*:romio_cb_write=enable",
        "cb_nodes=4",
        "x:y=z",
    ]


def test_help_names_every_hint_that_can_be_given():
    for row in tomllib.loads(paths.table_file("hints").read_text())["hint"]:
        assert (row["name"] in hints.help_text()) == (row["type"] != "fact")


def test_page(tmp_path):
    output = tmp_path / "man" / "penstock-hints.7"
    assert hints_man.main([str(TOP / "table" / "hints.toml"), str(output), "9.8.7"]) == 0
    text = output.read_text()
    assert "Penstock 9.8.7" in text
    for hint in hints.table():
        assert hints_man.roff(hint.name) in text and all(hints_man.roff(alias) in text for alias in hint.aliases)
    if shutil.which("groff"):
        answer = subprocess.run(["groff", "-ww", "-man", "-Tascii", output], capture_output=True, text=True, check=True)
        assert answer.stderr == ""


def test_text_that_roff_would_take_for_itself():
    assert hints_man.roff("a\\b 'c' x-y\n.dot") == "a\\eb \\(aqc\\(aq x\\-y\n\\&.dot"
