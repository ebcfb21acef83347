"""Asking a stronger model each time: a baseline without any reflection (Kapoor et al., arXiv 2407.01502, section 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from reflexion_lab.agent.critique.critique_revise import costs
from reflexion_lab.errors import ConfigError
from reflexion_lab.protocols import Actor, Model
from reflexion_lab.records import Recollection, Task, Trajectory, Usage


class Escalation:
    """Attempt n is made by the model of the n-th of `rungs`, attempts beyond by that of the last one.

    `models`: by role; a role without a model of its own has the actor's. `make_actor`: makes the actor for a model.
    What another rung than the actor spends is counted as that role's.
    """

    def __init__(self, models: Mapping[str, Model], make_actor: Callable[..., Actor], rungs: Sequence[str]) -> None:
        if not rungs or set(rungs) - models.keys():
            raise ConfigError("actor.rungs", list(rungs), f"one or more of {', '.join(models)}")
        self.rungs = [(rung, make_actor(model=models[rung])) for rung in rungs]

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        rung, actor = self.rungs[min(recollection.attempt, len(self.rungs)) - 1]
        made = replace(actor.act(task, recollection), strategy="escalation")
        if rung == "actor":
            return made
        return replace(made, usage=Usage(), others=costs([made.others, {rung: made.usage}]))
