"""What a model-written program could do, with the layers that it takes and the attacks that test it.

`reflexion-lab doctor` prints the state on a machine; docs/safety.md says what stops each, and what nothing stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Threat(NamedTuple):
    layers: tuple[str, ...]
    """Isolation layers that stop it; a machine may lack some."""
    families: tuple[str, ...]
    """Families of attacks in tests/attacks."""


VERDICTS = (
    "adversarial equality", "checks that are loops", "data model", "early exits", "forged reports", "judge tampering",
    "protocol",
)  # fmt: skip
THREATS = {
    "a forged verdict": Threat(("landlock",), VERDICTS),
    "hidden tests are read": Threat(("landlock",), ("test leakage",)),
    "keys and files are read": Threat(("landlock",), ("test leakage", "machine")),
    "files are written outside": Threat(("landlock", "seccomp"), ("machine", "kernel")),
    "the network is reached": Threat(("seccomp",), ("kernel",)),
    "processes are started or harmed": Threat(("seccomp",), ("kernel", "resources")),
    "memory, time or disk is used up": Threat(("rlimits",), ("resources",)),
    "the next program is affected": Threat((), ("state pollution",)),
    "the machine's trouble counts as the program's": Threat((), ()),
}


def state(threat: Threat, missing: Sequence[str], wrong: Sequence[str]) -> str:
    """On a machine that lacks the layers `missing`, with wrong verdicts on attacks of the families `wrong`."""
    if n := sum(family in threat.families for family in wrong):
        return f"NOT STOPPED: {n} hostile programs judged wrong"
    open_layers = [layer for layer in threat.layers if layer in missing]
    return f"open: no {' and no '.join(open_layers)}" if open_layers else "stopped"
