"""docs/hints.md says what table/hints.toml says."""

import tomllib

import hints_doc
from conftest import TOP

TABLE = tomllib.loads((TOP / "table" / "hints.toml").read_text())


def test_the_page_is_current(tmp_path):
    output = tmp_path / "hints.md"
    assert hints_doc.main([str(TOP / "table" / "hints.toml"), str(output)]) == 0
    assert (TOP / "docs" / "hints.md").read_text() == output.read_text(), (
        "run tools/gen/hints_doc.py table/hints.toml docs/hints.md"
    )


def test_every_name_is_there():
    page = hints_doc.hints_md(TABLE)
    for row in TABLE["hint"]:
        names = [row["name"]] if row["type"] == "fact" else [row["name"], *row["aliases"]]
        assert all(f"`{name}`" in page for name in names)
    for row in TABLE["prefix"]:
        assert f"`{row['name']}:`" in page


def test_limits_and_bars():
    assert hints_doc.values({"type": "bytes", "minimum": 1, "maximum": 9}) == "bytes, at least 1, at most 9"
    assert hints_doc.line(["a|b", "c"]) == "| a\\|b | c |\n"


def test_usage():
    assert hints_doc.main([]) == 2
