"""What was checked of a run, and where it disagrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from reflexion_lab.analysis.report import cells
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.records import Record
from reflexion_lab.text.shorten import line

if TYPE_CHECKING:
    from rich.console import Console

AGREES, DISAGREES, UNCHECKED = "agrees", "DISAGREES", "not checked"


class Disagreement(Record, frozen=True, kw_only=True):
    """One place at which a run folder is not what it should be."""

    where: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.where}: got {self.found}, expected {self.expected}"


class Finding(Record, frozen=True, kw_only=True):
    """One thing that was checked."""

    name: str
    told: str = ""
    """What was found to agree: a count, or a digest."""
    disagreements: tuple[Disagreement, ...] = ()
    unchecked: str = ""
    """Why nothing could be said; "" where something could."""

    @property
    def verdict(self) -> str:
        return DISAGREES if self.disagreements else UNCHECKED if self.unchecked else AGREES


class Verification(Record, frozen=True, kw_only=True):
    """All that was checked of one run."""

    run: str
    """Where it lies."""
    run_id: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """What a reader should know and is no disagreement, such as a torn line."""

    @property
    def holds(self) -> bool:
        """Nothing disagrees."""
        return not self.disagreements

    @property
    def disagreements(self) -> list[Disagreement]:
        return [disagreement for finding in self.findings for disagreement in finding.disagreements]


def equal(name: str, actual: object, expected: object, where: str = "") -> Finding:
    """The finding of one value."""
    if actual == expected:
        return Finding(name=name, told=str(actual))
    return Finding(name=name, disagreements=(unlike(where or name, actual, expected),))


def unlike(where: str, actual: object, expected: object) -> Disagreement:
    return Disagreement(where=where, found=short(actual), expected=short(expected))


def short(value: object) -> str:
    """In one line that fits a terminal."""
    return line(value if isinstance(value, str) else repr(value), 100)


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
