"""A verification as a table, a line for each disagreement, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from reflexion_lab.analysis.report import cells
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.studies.replay.verify.finding import AGREES, DISAGREES, Finding, Verification

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {AGREES: "green", DISAGREES: "bold red"}
"""What is not checked is yellow."""
SHOWN = 50
"""Disagreements that are printed; `--json` has all of them."""


def show(found: Verification, console: Console) -> None:
    """Print the table, then what is to be known, then each disagreement."""
    table = cells.table(f"Verified: {plain(found.run_id)}", "checked", "", "found", "expected", names=4)
    for finding in found.findings:
        told, expected = _sides(finding)
        style = STYLES.get(finding.verdict, "yellow")
        table.add_row(*map(cells.line, (finding.name,)), cells.line(finding.verdict, style), told, expected)
    console.print(table)
    for note in found.notes:
        console.print(cells.line(f"note: {plain(note)}"))
    wrong = found.disagreements
    for one in wrong[:SHOWN]:
        console.print(cells.line(f"DISAGREES: {plain(str(one))}", "bold red"), soft_wrap=True)
    if len(wrong) > SHOWN:
        console.print(cells.line(f"and {len(wrong) - SHOWN} more; --json names them", "bold red"))
    checked = sum(not finding.unchecked for finding in found.findings)
    said = "nothing disagrees" if found.holds else f"{len(wrong)} disagreement{'s' * (len(wrong) > 1)}"
    console.print(cells.line(f"{said}; checked {checked} of {len(found.findings)}: {plain(found.run)}"), soft_wrap=True)


def as_json(found: Verification) -> dict[str, Any]:
    """The verification as plain values, the verdict with it."""
    plain_values: dict[str, Any] = msgspec.to_builtins(found)
    for told, finding in zip(plain_values["findings"], found.findings, strict=True):
        told["verdict"] = finding.verdict
    return {"run": found.run, "run_id": found.run_id, "agrees": found.holds, **plain_values}


def _sides(finding: Finding) -> tuple[Any, Any]:
    if finding.disagreements:
        first, more = finding.disagreements[0], len(finding.disagreements) - 1
        found = f"{first.where}: {first.found}" + (f" (and {more} more)" if more else "")
        return cells.line(plain(found)), cells.line(plain(first.expected))
    told = plain(finding.unchecked or finding.told)
    return cells.line(told), cells.line("" if finding.unchecked else told)
