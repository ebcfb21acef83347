"""Model escalation: a baseline without reflection (Kapoor et al., arXiv 2407.01502)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from reflexion_lab.agent.critique.critique_revise import usage_by_role
from reflexion_lab.errors import ConfigError
from reflexion_lab.protocols import Actor, Model
from reflexion_lab.records import Recollection, Task, Trajectory, Usage


class Escalation:
    """Uses the model of the n-th of `rungs` for attempt n, and the last one for later attempts.

    `models`: models by role. `make_actor`: builds the actor for `model=`. `rungs`: roles, at least one. Calls of roles
    other than `actor` are counted as that role's.
    """

    def __init__(self, models: Mapping[str, Model], make_actor: Callable[..., Actor], rungs: Sequence[str]) -> None:
        if not rungs or set(rungs) - models.keys():
            raise ConfigError("actor.rungs", list(rungs), f"one or more of {', '.join(models)}")
        self.rungs = [(rung, make_actor(model=models[rung])) for rung in rungs]

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        rung, actor = self.rungs[min(recollection.attempt, len(self.rungs)) - 1]
        trajectory = replace(actor.act(task, recollection), strategy="escalation")
        if rung == "actor":
            return trajectory
        return replace(trajectory, usage=Usage(), others=usage_by_role([trajectory.others, {rung: trajectory.usage}]))
