"""The results of study model and study tradeoff as tables for people.  Knows the results' shape only."""

from typing import IO, Any

from penstock import show
from penstock.study.tables import Printer

NAMES = ("device", "access", "assumption", "direction", "MPI", "in the paper")


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} %"


def signed_percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f} %"


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def print_model(result: dict[str, Any], stream: IO[str]) -> None:
    printer = Printer(stream)
    headings = ("device", "access", "printed s", "computed s", "same digits", "as stated s", "measured s", "error printed", "error", "assumption")  # fmt: skip
    for table in ("V", "VI"):
        rows = [row for row in result["cells"] if row["table"] == table]
        printer.say(f"Table {table} of the paper: {rows[0]['nodes']} nodes, 16 ranks, 16 GB")
        lines = [
            [
                row["device"],
                row["access"],
                f"{row['printed_seconds']:.2f}",
                f"{row['computed_seconds']:.2f}",
                "yes" if row["same_digits"] else "no",
                f"{row['stated_seconds']:.2f}",
                f"{row['measured_seconds']:.2f}",
                percent(row["printed_error_percent"]),
                percent(row["error_percent"]) + ("" if row["same_error"] else " !"),
                row["assumption"],
            ]
            for row in rows
        ]
        printer.table(headings, lines, NAMES)
    for note in result["notes"]:
        printer.say(note)
    if result.get("here"):
        print_here(result["here"], printer)


def print_here(here: dict[str, Any], printer: Printer) -> None:
    printer.say("")
    printer.say(f"Measured on this machine ({here['where']}) with {here['profile']}")
    headings = ("device", "MPI", "direction", "access", "ranks", "nodes", "bytes", "measured s", "paper s", "error", "Penstock s", "error ")  # fmt: skip
    lines = [
        [
            row["device"] or "directory",
            row["mpi"],
            row["direction"],
            row["access"],
            str(row["ranks"]),
            str(row["nodes"]),
            show.byte_amount(row["bytes"]),
            seconds(row["measured_seconds"]),
            seconds(row["paper_seconds"]),
            signed_percent(row["paper_error_percent"]),
            seconds(row["penstock_seconds"]),
            signed_percent(row["penstock_error_percent"]),
        ]
        for row in here["cells"]
    ]
    printer.table(headings, lines, NAMES)
    for where, errors in ({"all cells": here["errors"]} | here["errors_by_device"]).items():
        for name, found in errors.items():
            printer.say(
                f"{where}, {name}: mean error {found['mean_percent']:.1f} %, worst {found['worst_percent']:.1f} %"
            )


def print_tradeoff(result: dict[str, Any], stream: IO[str]) -> None:
    printer = Printer(stream)
    headings = ("device", "message", "shuffle s", "benefit s", "benefit without shuffle s", "benefit exceeds shuffle", "collective is faster")  # fmt: skip
    lines = [
        [
            row["device"],
            show.byte_amount(row["message_bytes"]),
            f"{row['shuffle_seconds']:.4g}",
            f"{row['benefit_seconds']:.4g}",
            f"{row['file_benefit_seconds']:.4g}",
            "yes" if row["benefit_exceeds_shuffle"] else "no",
            "yes" if row["collective_is_faster"] else "no",
        ]
        for row in result["cells"]
    ]
    printer.table(headings, lines, NAMES)
    if result["statements"]:
        printer.table(
            ("in the paper", "here"),
            [[one["text"], "yes" if one["holds"] else "no"] for one in result["statements"]],
            NAMES,
        )
    for note in result["notes"]:
        printer.say(note)
