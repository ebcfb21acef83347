"""What the name of an arm promises: a control that is another thing than it is called makes a comparison worthless."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reflexion_lab.runner.config.build import capability

WORDLESS = ("reflector", "NoReflection")
PROMISED = {
    "retry": (WORDLESS,),
    "feedback_only": (WORDLESS,),
    "warming": (WORDLESS, ("actor", "Warming")),
    "escalation": (WORDLESS, ("actor", "Escalation")),
    "reflexion_generic": (("reflector", "Generic"),),
    "reflexion_shuffled": (("reflector", "Shuffled"),),
}
"""By arm, what its experiment chooses: the group, and the class."""


def doubts(config: Mapping[str, Any]) -> Iterator[str]:
    """Why the run may not be what its arm says, in a sentence each; the same overrides for all arms of a sweep go
    before what an experiment chooses.
    """
    arm = config["arm"]
    for group, name in PROMISED.get(arm, ()):
        if name not in (classes := _classes(config[group])):
            yield (
                f"arm: got {arm} with {group} {classes[0]}, expected {name}, as experiment={arm} has it; "
                f"leave {group}=… out, or give the arm another name"
            )
    if arm == "retry" and config["loop"]["max_attempts"] > 1 and _is_greedy(config["actor"]):
        yield (
            "temperature: got 0 with arm=retry, where a deterministic model draws the same program at every attempt, "
            "expected one above 0; give temperature=0.8, say, to all arms alike"
        )
    shares = config["memory"]["shared"].get("across_cells") and capability(
        config["store"], "is_durable", True, is_inherited=False
    )
    if shares and config.get("sweep_id"):
        yield (
            "memory.shared.across_cells: true, so cells of this sweep read what others have stored; results depend on "
            "the order in which the cells run, and seeds are no independent repetitions"
        )


def _classes(node: dict[str, Any]) -> list[str]:
    """Names of the class that a part is of, and of the classes that it extends."""
    named = str(node.get("_target_", "")).rpartition(".")[2]
    return [named, *(base.__name__ for base in capability(node, "__mro__", ()))]


def _is_greedy(node: Any) -> bool:
    """Whether an actor draws at temperature 0 alone."""
    found = list(_temperatures(node))
    return bool(found) and max(found) == 0


def _temperatures(node: Any) -> Iterator[float]:
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if key == "temperature" and isinstance(value, int | float):
            yield value
        else:
            yield from _temperatures(value)
