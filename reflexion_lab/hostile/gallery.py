"""All hostile programs, family by family; `reflexion-lab doctor --hostile` runs them and prints the table."""

from __future__ import annotations

from msgspec.structs import replace

from reflexion_lab.hostile import (
    bent_judges,
    early_exits,
    forged_reports,
    in_place,
    kernel,
    leaks,
    lying_values,
    machine,
    resources,
    stolen_answers,
)
from reflexion_lab.hostile.attack import Attack

FAMILIES = {
    "early exits": early_exits.ATTACKS,
    "forged reports": forged_reports.ATTACKS,
    "bent judges": bent_judges.ATTACKS,
    "stolen answers": stolen_answers.ATTACKS,
    "lying values": lying_values.ATTACKS,
    "resources": resources.ATTACKS,
    "machine": machine.ATTACKS,
    "kernel": kernel.ATTACKS,
    "leaks": leaks.ATTACKS,
    "in place": in_place.ATTACKS,
}
GALLERY: tuple[Attack, ...] = tuple(
    replace(attack, family=family) for family, attacks in FAMILIES.items() for attack in attacks
)
QUICK_NAMES = (
    "exits with success",
    "exits past every handler",
    "raises SystemExit when called",
    "kills itself",
    "closes every descriptor",
    "writes to every descriptor",
    "finds the nonce in its frames",
    "shadows exec in the frames above",
    "always equal: object as Liar()",
    "eats memory by bytes",
    "loops for ever",
    "leaves a daemon",
    "reads the machine's users",
    "writes to the temporary folder",
    "connects to the loopback",
)
QUICK = tuple(attack for attack in GALLERY if attack.name in QUICK_NAMES)
"""A handful that takes no time, for every visit to the doctor."""
