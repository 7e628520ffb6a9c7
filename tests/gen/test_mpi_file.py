"""The generator's outputs for table/mpi_file.toml: golden texts for a few rows, and what must hold for every row."""

import json
import sys
import tomllib
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tools" / "gen"))
import mpi_file  # noqa: E402

TABLE = tomllib.loads((ROOT / "table" / "mpi_file.toml").read_text())
SAMPLE_NAMES = (
    "MPI_File_open",
    "MPI_File_close",
    "MPI_File_write_at",
    "MPI_File_get_type_extent",
    "MPI_Register_datarep",
    "MPI_File_c2f",
    "MPI_File_f2c",
)
SAMPLE = {"function": [row for row in TABLE["function"] if row["name"] in SAMPLE_NAMES]}
OUTPUTS = {
    "calls.h": mpi_file.calls_h,
    "entries.cpp": mpi_file.entries_cpp,
    "exports.map": mpi_file.exports_map,
    "front_exports.map": mpi_file.front_exports_map,
    "front_symbols.h": mpi_file.front_symbols_h,
    "entry_table.json": mpi_file.entry_table_json,
    "static_names.h": mpi_file.static_names_h,
    "static_link.options": mpi_file.static_link_options,
}


class Golden(unittest.TestCase):
    """After an intended change: `python3 tests/gen/test_mpi_file.py --accept`, then read the difference."""

    def test_outputs_are_as_accepted(self):
        for name, output in OUTPUTS.items():
            with self.subTest(output=name):
                self.assertEqual(output(SAMPLE), (HERE / "golden" / name).read_text())


class EveryRow(unittest.TestCase):
    def test_only_known_keys_kinds_and_values(self):
        keys = {
            "name",
            "group",
            "section",
            "arguments",
            "collective",
            "nonblocking",
            "split",
            "large",
            "forwards",
            "returns",
            "call",
        }
        for row in TABLE["function"]:
            with self.subTest(name=row["name"]):
                self.assertLessEqual(set(row), keys)
                kinds = {kind for _, kind in mpi_file.arguments(row)} | {row.get("returns", "ERROR")}
                self.assertLessEqual(kinds, set(mpi_file.TYPES) | set(mpi_file.SIZED_TYPES))
                self.assertIn(row.get("forwards", "native"), ("native", "foreign", "nested", "never"))
                self.assertIn(row.get("split", ""), ("", "begin", "end"))

    def test_nothing_has_more_arguments_than_the_front_passes_on(self):
        self.assertEqual([row["name"] for row in TABLE["function"] if len(row["arguments"]) > 6], [])

    def test_large_forms_are_those_with_a_kind_that_differs(self):
        for row in TABLE["function"]:
            sized = any(kind in mpi_file.SIZED_TYPES for _, kind in mpi_file.arguments(row))
            self.assertEqual(row.get("large", False), sized, row["name"])

    def test_flags_agree_with_the_standards_names(self):
        for row in TABLE["function"]:
            verb = row["name"].removeprefix("MPI_File_")
            access = verb.startswith(("read", "write", "iread", "iwrite"))
            self.assertEqual(row.get("nonblocking", False), verb.startswith(("iread", "iwrite")), verb)
            self.assertEqual(
                row.get("split", ""),
                verb.rsplit("_", 1)[-1] if access and verb.endswith(("_begin", "_end")) else "",
                verb,
            )
            if access:
                self.assertEqual(row.get("collective", False), "_all" in verb or "_ordered" in verb, verb)

    def test_calls_that_ask_the_native_library_have_a_file_first(self):
        for row in TABLE["function"]:
            if row.get("forwards", "native") == "native":
                self.assertEqual(row["arguments"][0], "fh:FILE", row["name"])

    def test_call_names_are_unique(self):
        names = [mpi_file.call_name(row) for row in TABLE["function"]]
        self.assertEqual(len(names), len(set(names)))

    def test_the_table_for_others_has_every_function_and_both_symbols(self):
        functions = json.loads(mpi_file.entry_table_json(TABLE))["functions"]
        self.assertEqual([symbol for row in functions for symbol in row["symbols"]], mpi_file.symbols(TABLE))
        self.assertEqual(len(functions), 94)


def accept() -> None:
    (HERE / "golden").mkdir(exist_ok=True)
    for name, output in OUTPUTS.items():
        (HERE / "golden" / name).write_text(output(SAMPLE))


if __name__ == "__main__":
    if "--accept" in sys.argv:
        accept()
    else:
        unittest.main()
