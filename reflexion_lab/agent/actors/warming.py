"""Temperature schedule, a baseline without reflection: retries at rising temperatures (Kapoor et al., 2407.01502)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.protocols import Actor, Model
from reflexion_lab.records import Completion, Message, Recollection, Sampling, Task, Trajectory


class Warming:
    """Attempt n is drawn at temperature `base` plus the n-th of `temperatures`, further attempts at the last.

    Parameters
    ----------
    model : Model
    make_actor : callable
        Makes the actor for `model=`. All its calls have the attempt's temperature, a reviser's too; a critic keeps its
        own.
    temperatures : sequence of float
        One or more; with `base` added none is below 0.
    base : float
    """

    def __init__(
        self, model: Model, make_actor: Callable[..., Actor], temperatures: Sequence[float], base: float = 0.0
    ) -> None:
        if not temperatures or min(temperatures) + base < 0:
            raise ConfigError("actor.temperatures", list(temperatures), "one or more, none below 0")
        # Rounded: 0.1 + 0.2 is another temperature than 0.3, and another call to the cache.
        self.actors = [make_actor(model=Warmed(model, round(base + rise, 6))) for rise in temperatures]

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        actor = self.actors[min(recollection.attempt, len(self.actors)) - 1]
        return replace(actor.act(task, recollection), strategy="warming")


class Warmed:
    """`model` at a fixed temperature, whatever the sampling says."""

    def __init__(self, model: Model, temperature: float) -> None:
        self.fingerprint = model.fingerprint
        self.slots = model.slots
        self.context = model.context
        self._model = model
        self._temperature = temperature

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        warmed = replace(sampling, temperature=self._temperature)
        return self._model.complete(messages, sampling=warmed, sample=sample)
