"""Findings of a verification or a replay: one record per check, shown as a table or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from rich.console import Console

from reflexion_lab.analysis.report import cells
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.records import Record
from reflexion_lab.text.shorten import line, number_of

AGREES, DISAGREES, UNCHECKED = "agrees", "DISAGREES", "not checked"
STYLES = {AGREES: "green", DISAGREES: "bold red", UNCHECKED: "yellow"}
SHOWN = 50
"""Maximum number of printed disagreements; `verify --json` has all."""


class Disagreement(Record, frozen=True, kw_only=True):
    """One place where a run disagrees with itself, with its replay, or with this machine."""

    where: str
    got: str
    expected: str

    def __str__(self) -> str:
        return f"{self.where}: got {self.got}, expected {self.expected}"


class Finding(Record, frozen=True, kw_only=True):
    name: str
    value: str = ""
    """The value that agrees: a count or a digest."""
    disagreements: tuple[Disagreement, ...] = ()
    unchecked: str = ""
    """Why the check was not possible, else ""."""

    @property
    def verdict(self) -> str:
        return DISAGREES if self.disagreements else UNCHECKED if self.unchecked else AGREES


class Verification(Record, frozen=True, kw_only=True):
    run: str
    """Path of the run, or of its bundle."""
    run_id: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """Remarks that are no disagreements, such as a torn line."""

    @property
    def holds(self) -> bool:
        return not self.disagreements

    @property
    def disagreements(self) -> list[Disagreement]:
        return [disagreement for finding in self.findings for disagreement in finding.disagreements]


def equal(name: str, actual: object, expected: object, where: str = "", value: str = "") -> Finding:
    """The finding of one comparison. `value`: what to show if they agree, by default `actual`."""
    if actual == expected:
        return Finding(name=name, value=value or str(actual))
    return Finding(name=name, disagreements=(unlike(where or name, actual, expected),))


def equal_items(
    name: str,
    actual: Mapping[str, Any],
    expected: Mapping[str, Any],
    value: str,
    where: str = "",
    text: Callable[[Any], object] = str,
) -> Finding:
    """The finding of a comparison key by key; missing keys disagree. `where` goes before each key."""
    wrong = []
    for key in sorted(actual.keys() | expected.keys()):
        if actual.get(key) != expected.get(key):
            got, wanted = (text(items[key]) if key in items else "none" for items in (actual, expected))
            wrong.append(unlike(f"{where}{key}", got, wanted))
    return Finding(name=name, value=value, disagreements=tuple(wrong))


def unlike(where: str, actual: object, expected: object) -> Disagreement:
    return Disagreement(where=where, got=short(actual), expected=short(expected))


def short(value: object) -> str:
    """One line that fits a terminal."""
    return line(value if isinstance(value, str) else repr(value), 100)


def show(verification: Verification, title: str = "Verified") -> None:
    """Print the table, the notes, then each disagreement."""
    console = Console()
    table = cells.table(f"{title}: {plain(verification.run_id)}", "checked", "", "got", "expected", names=4)
    for finding in verification.findings:
        got, expected = finding.unchecked or finding.value, "" if finding.unchecked else finding.value
        if finding.disagreements:
            first, more = finding.disagreements[0], len(finding.disagreements) - 1
            got, expected = f"{first.where}: {first.got}" + f" (and {more} more)" * bool(more), first.expected
        verdict = cells.line(finding.verdict, STYLES[finding.verdict])
        table.add_row(cells.line(finding.name), verdict, cells.line(plain(got)), cells.line(plain(expected)))
    console.print(table)
    for note in verification.notes:
        console.print(cells.line(f"note: {plain(note)}"))
    wrong = verification.disagreements
    for disagreement in wrong[:SHOWN]:
        console.print(cells.line(f"DISAGREES: {plain(str(disagreement))}", "bold red"), soft_wrap=True)
    if len(wrong) > SHOWN:
        console.print(cells.line(f"and {len(wrong) - SHOWN} more; `verify --json` names all of a run", "bold red"))
    checked = sum(not finding.unchecked for finding in verification.findings)
    result = "nothing disagrees" if verification.holds else number_of(len(wrong), "disagreement")
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
