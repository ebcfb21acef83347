"""What the name of an arm promises: a control that is another thing than it is called makes a comparison worthless."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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
        if (found := _class(config[group])) != name:
            yield (
                f"arm: {arm} found with {group} {found}; expected {name}, as experiment={arm} has it; leave {group}=… "
                "out, or give the arm another name"
            )
    if arm == "retry" and config["loop"]["max_attempts"] > 1 and _is_greedy(config["actor"]):
        yield (
            "temperature: 0 found with arm=retry: a deterministic model draws the same program at every "
            "attempt; expected a temperature above 0, such as temperature=0.8, in all arms alike"
        )


def _class(node: dict[str, Any]) -> str:
    return str(node.get("_target_", "")).rpartition(".")[2]


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
