"""What was checked of a run, and where it disagrees."""

from __future__ import annotations

from reflexion_lab.records import Record
from reflexion_lab.text.shorten import line

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
