"""Model escalation, a baseline without reflection: each retry by a stronger model (Kapoor et al., arXiv 2407.01502)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from reflexion_lab.agent.critique.critique_revise import costs
from reflexion_lab.errors import ConfigError
from reflexion_lab.protocols import Actor, Model
from reflexion_lab.records import Recollection, Task, Trajectory, Usage


class Escalation:
    """Attempt n is made by the model of the n-th of `rungs`, further attempts by that of the last.

    Parameters
    ----------
    models : mapping of str to Model
        By role; a role without a model of its own has the actor's.
    make_actor : callable
        Makes the actor for `model=`.
    rungs : sequence of str
        Roles, one or more. The calls of another one than `actor` are counted as that role's.
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
        return replace(trajectory, usage=Usage(), others=costs([trajectory.others, {rung: trajectory.usage}]))
