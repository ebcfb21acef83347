"""Loops of a few tasks, run as a run would run them, with every model call noted. Nothing is graded or written down."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from reflexion_lab.agent.models.cache import CachedModel, call_key
from reflexion_lab.records import Attempt, Completion, Message, Sampling, Task, Usage

if TYPE_CHECKING:
    from reflexion_lab.agent.models.prices import Price
    from reflexion_lab.memory.archive import Archive
    from reflexion_lab.runner.config.build import Config
    from reflexion_lab.runner.config.parts import Models
    from reflexion_lab.tasks.sandbox.cached import CachedSandbox


class Call(NamedTuple):
    """One call to a model."""

    key: str
    role: str
    attempt: int
    """1-based; 0 before the first."""
    usage: Usage
    max_tokens: int
    cached: bool
    """Whether its reply was there before."""
    priced: Price

    @property
    def is_retry(self) -> bool:
        return self.attempt > 1 or self.role == "reflector"

    @property
    def price(self) -> str:
        return str(self.priced)

    def cost(self, prompt: int, completion: int) -> float:
        return self.priced.cost(prompt, completion)


class Trace(NamedTuple):
    """One task's loop."""

    task_id: str
    calls: list[Call]
    attempts: list[Attempt]

    def seconds(self, counted: set[int]) -> float:
        """Of the model in the calls counted, by `id`, and of the evaluations that follow one of them."""
        calls = [call for call in self.calls if id(call) in counted]
        fresh = {call.attempt for call in calls}
        evaluated = sum(attempt.evaluation.seconds for attempt in self.attempts if attempt.number in fresh)
        return sum(call.usage.seconds for call in calls) + evaluated


class Noting:
    """`model` in `role` of one loop, with every call recorded in `trace`."""

    def __init__(self, model: CachedModel, role: str, trace: Trace) -> None:
        self.fingerprint = model.fingerprint
        self.slots = model.slots
        self.context = model.context
        self._model = model
        self._role = role
        self._trace = trace

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        completion = self._model.complete(messages, sampling=sampling, sample=sample)
        self._trace.calls.append(
            Call(
                key=call_key(self.fingerprint, messages, sampling, sample),
                role=self._role,
                attempt=len(self._trace.attempts) + (self._role != "suite_writer"),
                usage=completion.usage,
                max_tokens=sampling.max_tokens,
                cached=completion.cached,
                priced=self._model.price,
            )
        )
        return completion


def without_traces(cfg: Config) -> Config:
    """A copy of the config that reads and writes no store, and writes no words down."""
    cfg = copy.deepcopy(cfg)
    cfg.store, cfg.memory.reflection_files = _no_store(), None
    return cfg


@cache
def _no_store() -> Any:
    """Composed once: it takes Hydra a tenth of a second, and a sweep has a hundred cells."""
    from reflexion_lab.runner.config.compose import compose

    return compose("store=none").store


def probe(cfg: Config, tasks: Sequence[Task], sandbox: CachedSandbox, scope: str) -> tuple[list[Trace], int]:
    """The loops of `tasks`, and the number of workers of a run. New spending counts towards the caps of `scope`. `cfg`
    is a result of `without_traces`.

    Raises
    ------
    CapReached
        No more may be spent.
    """
    from reflexion_lab.runner.config.parts import load_archive, load_models

    models, archive = load_models(cfg), load_archive(cfg)
    models.meter.scope = scope
    workers = cfg.workers or models.of("actor").slots
    try:
        if archive:
            archive.begin()
        with ThreadPoolExecutor(min(workers, len(tasks))) as pool:
            return list(pool.map(lambda task: trace(cfg, models, sandbox, archive, task), tasks)), workers
    finally:
        models.close()
        if archive:
            archive.close()


def trace(cfg: Config, models: Models, sandbox: CachedSandbox, archive: Archive | None, task: Task) -> Trace:
    """One task's loop, from the tests that a model writes for it to its last attempt."""
    from reflexion_lab.runner.config.compose import loop_factory
    from reflexion_lab.runner.config.parts import ROLES, suite_writer_factory
    from reflexion_lab.runner.runner import teach

    noted_trace = Trace(task.task_id, [], [])
    noted = {role: cast(CachedModel, Noting(models.of(role), role, noted_trace)) for role in ROLES}
    written: tuple[str, ...] = ()
    if cfg.feedback_source == "self_tests":
        written = suite_writer_factory(cfg, noted["suite_writer"], sandbox)().write(task.public).tests
    loop = loop_factory(cfg, models._replace(by_role=noted), sandbox, archive)()
    for attempt in loop.attempts(teach(task, cfg.feedback_source, written)):
        noted_trace.attempts.append(attempt)
    return noted_trace
