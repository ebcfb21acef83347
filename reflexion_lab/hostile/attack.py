"""What a hostile program is, and the verdict on one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from reflexion_lab.records import OUTCOMES, Check, Record

CHECKS = ("assert f(1) == 2",)
SECRET = "expected-5f0e3c9a71d24b86"
"""An expected value that no program can guess, and that has this shape in every memory that holds it."""
SECRET_CHECKS = (f"assert f(1) == {SECRET!r}",)
IN_PLACE = ("for x in (1,):\n    assert f(x) == 2",)
"""The default check in a form that can only be judged in the candidate's own process."""
RIGHT = "\ndef f(x):\n    return 2\n"
"""Ends a program that passes if, and only if, what stands above it is let through."""
WRONG = "\ndef f(x):\n    return 3\n"
"""Ends a program that passes only if it deceives its judge."""
CAP = 20_000
"""Characters of a check's field above which a candidate floods the lab's records."""


class Attack(Record, frozen=True, kw_only=True):
    """One hostile program.

    Harmless where a layer is missing: sizes and counts are bounded, signals go to its own processes alone, and what it
    writes outside it removes again.
    """

    name: str
    program: str
    tries: str
    """What it attempts, in a few words."""
    expected: tuple[str, ...]
    """The outcomes it may get."""
    raises: tuple[str, ...] = ()
    """Where `error` is expected: the exceptions that count, so that no slip of the program looks like a wall; any if
    empty."""
    checks: tuple[str, ...] = CHECKS
    """What it is judged by; not one of them may pass."""
    setup: str = ""
    mode: str = "apart"
    """How its checks are judged: `apart`, or `in_place` in the candidate's own process, where forging is possible."""
    needs: tuple[str, ...] = ()
    """Layers that stop it; where one is missing, it may get through."""
    probe: str = ""
    """Of a leak: the program run next in the same server, which must see a clean world and pass."""
    family: str = ""


class Verdict(Record, frozen=True, kw_only=True):
    """What an attack got."""

    attack: Attack
    outcome: str
    """One of `OUTCOMES`; `pass` if a single check passed; of a leak, the probe's."""
    right: bool
    detail: str = ""
    mode: str = ""


class Checked(Protocol):
    """What came of one program."""

    @property
    def checks(self) -> tuple[Check, ...]: ...


class Runs(Protocol):
    """The sandbox, as far as an attack knows it."""

    def run(self, program: str, entry_point: str, checks: Sequence[str], setup: str = "") -> Checked: ...


def judge(sandbox: Runs, attack: Attack) -> Verdict:
    """Run the attack. A leak needs a sandbox with a single server. Nothing is raised: a broken lab is a verdict too."""
    try:
        checks = sandbox.run(attack.program, "f", list(attack.checks), attack.setup).checks
        if attack.probe:
            checks = sandbox.run(attack.probe, "f", list(CHECKS)).checks
    except Exception as problem:  # whatever a candidate makes the lab raise is what we look for
        return Verdict(attack=attack, outcome="harness_error", right=False, detail=f"the lab raised {problem!r}"[:300])
    told = next((check for check in checks if check.outcome == "pass"), checks[0])
    right = told.outcome in attack.expected and all(map(sound, checks))
    if told.outcome == "error" and attack.raises:
        right = right and told.error_type in attack.raises
    detail = f"{told.error_type}: {told.message}" if told.error_type else told.message
    return Verdict(attack=attack, outcome=told.outcome, right=right, detail=detail[:300], mode=told.mode)


def sound(check: Check) -> bool:
    """Whether a check is what a record may hold, whatever its candidate wrote into it."""
    texts = (check.error_type, check.message, check.expected, check.actual)
    small = all(len(text) <= CAP for text in texts)
    return small and check.outcome in OUTCOMES and math.isfinite(check.seconds) and check.seconds >= 0
