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


def show(verification: Verification, console: Console) -> None:
    """Print the table, then what is to be known, then each disagreement."""
    table = cells.table(f"Verified: {plain(verification.run_id)}", "checked", "", "found", "expected", names=4)
    for finding in verification.findings:
        agreement, expected = _sides(finding)
        style = STYLES.get(finding.verdict, "yellow")
        table.add_row(*map(cells.line, (finding.name,)), cells.line(finding.verdict, style), agreement, expected)
    console.print(table)
    for note in verification.notes:
        console.print(cells.line(f"note: {plain(note)}"))
    wrong = verification.disagreements
    for disagreement in wrong[:SHOWN]:
        console.print(cells.line(f"DISAGREES: {plain(str(disagreement))}", "bold red"), soft_wrap=True)
    if len(wrong) > SHOWN:
        console.print(cells.line(f"and {len(wrong) - SHOWN} more; --json names them", "bold red"))
    checked = sum(not finding.unchecked for finding in verification.findings)
    result = "nothing disagrees" if verification.holds else f"{len(wrong)} disagreement{'s' * (len(wrong) > 1)}"
    console.print(
        cells.line(f"{result}; checked {checked} of {len(verification.findings)}: {plain(verification.run)}"),
        soft_wrap=True,
    )


def as_json(verification: Verification) -> dict[str, Any]:
    """The verification as plain values, the verdict with it."""
    plain_values: dict[str, Any] = msgspec.to_builtins(verification)
    for plain_finding, finding in zip(plain_values["findings"], verification.findings, strict=True):
        plain_finding["verdict"] = finding.verdict
    return {"run": verification.run, "run_id": verification.run_id, "agrees": verification.holds, **plain_values}


def _sides(finding: Finding) -> tuple[Any, Any]:
    if finding.disagreements:
        first, more = finding.disagreements[0], len(finding.disagreements) - 1
        text = f"{first.where}: {first.found}" + (f" (and {more} more)" if more else "")
        return cells.line(plain(text)), cells.line(plain(first.expected))
    text = plain(finding.unchecked or finding.told)
    return cells.line(text), cells.line("" if finding.unchecked else text)
