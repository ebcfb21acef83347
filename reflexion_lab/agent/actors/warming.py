"""Temperature schedule: a baseline without reflection (Kapoor et al., arXiv 2407.01502)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from reflexion_lab.agent.models.wrapped import WrappedModel
from reflexion_lab.errors import ConfigError
from reflexion_lab.protocols import Actor, Model
from reflexion_lab.records import Completion, Message, Recollection, Sampling, Task, Trajectory


class Warming:
    """Samples attempt n at temperature `base + temperatures[n - 1]`, later attempts at the last temperature.

    `make_actor`: builds the actor for `model=`. All its calls use the attempt's temperature, including those of a
    reviser; a critic keeps its own. `temperatures`: at least one; no sum with `base` is below 0.
    """

    sets_temperature = True

    def __init__(
        self, model: Model, make_actor: Callable[..., Actor], temperatures: Sequence[float], base: float = 0.0
    ) -> None:
        if not temperatures or min(temperatures) + base < 0:
            raise ConfigError("actor.temperatures", list(temperatures), "one or more, none below 0")
        # Rounded, because the call cache would treat 0.1 + 0.2 and 0.3 as different temperatures.
        self.actors = [make_actor(model=FixedTemperature(model, round(base + rise, 6))) for rise in temperatures]

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        actor = self.actors[min(recollection.attempt, len(self.actors)) - 1]
        return replace(actor.act(task, recollection), strategy="warming")


class FixedTemperature(WrappedModel):
    """`model` at a fixed temperature; that of the sampling is ignored."""

    def __init__(self, model: Model, temperature: float) -> None:
        super().__init__(model)
        self._temperature = temperature

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        sampling = replace(sampling, temperature=self._temperature)
        completion = super().complete(messages, sampling=sampling, sample=sample)
        if completion.usage.own_temperature:
            got = f"{self._temperature:g}, which the server does not get"
            raise ConfigError("actor.temperatures", got, "another actor, since all replies have the server's own")
        return completion
