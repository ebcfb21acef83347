"""Findings of a verification, as records, as a table and as JSON."""

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
STYLES = {AGREES: "green", DISAGREES: "bold red"}
"""By verdict; unchecked ones are yellow."""
SHOWN = 50
"""Maximal number of printed disagreements; `--json` has all."""


class Disagreement(Record, frozen=True, kw_only=True):
    """One place where a run folder disagrees with itself or with this machine."""

    where: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.where}: got {self.found}, expected {self.expected}"


class Finding(Record, frozen=True, kw_only=True):
    """The result of one check."""

    name: str
    told: str = ""
    """What agrees: a count or a digest."""
    disagreements: tuple[Disagreement, ...] = ()
    unchecked: str = ""
    """Why the check was not possible, else ""."""

    @property
    def verdict(self) -> str:
        return DISAGREES if self.disagreements else UNCHECKED if self.unchecked else AGREES


class Verification(Record, frozen=True, kw_only=True):
    """All findings of one run."""

    run: str
    """Path of the run."""
    run_id: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """Remarks that are no disagreements, such as a torn line."""

    @property
    def holds(self) -> bool:
        """Whether nothing disagrees."""
        return not self.disagreements

    @property
    def disagreements(self) -> list[Disagreement]:
        return [disagreement for finding in self.findings for disagreement in finding.disagreements]


def equal(name: str, actual: object, expected: object, where: str = "") -> Finding:
    """The finding of one comparison."""
    if actual == expected:
        return Finding(name=name, told=str(actual))
    return Finding(name=name, disagreements=(unlike(where or name, actual, expected),))


def unlike(where: str, actual: object, expected: object) -> Disagreement:
    return Disagreement(where=where, found=short(actual), expected=short(expected))


def short(value: object) -> str:
    """One line that fits a terminal."""
    return line(value if isinstance(value, str) else repr(value), 100)


def show(verification: Verification, console: Console) -> None:
    """Print the table, the notes, then each disagreement."""
    table = cells.table(f"Verified: {plain(verification.run_id)}", "checked", "", "found", "expected", names=4)
    for finding in verification.findings:
        verdict = cells.line(finding.verdict, STYLES.get(finding.verdict, "yellow"))
        got, expected = finding.unchecked or finding.told, "" if finding.unchecked else finding.told
        if finding.disagreements:
            first, more = finding.disagreements[0], len(finding.disagreements) - 1
            got, expected = f"{first.where}: {first.found}" + f" (and {more} more)" * bool(more), first.expected
        table.add_row(cells.line(finding.name), verdict, cells.line(plain(got)), cells.line(plain(expected)))
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
    """The verification as plain values with its verdict."""
    plain_values: dict[str, Any] = msgspec.to_builtins(verification)
    for plain_finding, finding in zip(plain_values["findings"], verification.findings, strict=True):
        plain_finding["verdict"] = finding.verdict
    return {"run": verification.run, "run_id": verification.run_id, "agrees": verification.holds, **plain_values}
