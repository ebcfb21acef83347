"""An attempt as calls of models and the feedback between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from reflexion_lab.analysis.run_list import model_names
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import cost_is_known
from reflexion_lab.records import Attempt, Evaluation, Message, Step, Usage


class Call(NamedTuple):
    """One turn of a model, or a text without one, whose usage has no call. `thought`: reasoning beside the reply;
    `tool`: its tool, `act` for an action of a world; `seen`: what it returned, or what came of the draft.
    `finish_reason`: "" where it is not recorded. `is_submitted`: the feedback judges this draft. `seconds`: of its
    tools. Prompts of reflections are not recorded.
    """

    role: str
    messages: tuple[Message, ...]
    reply: str
    usage: Usage
    thought: str = ""
    tool: str = ""
    arguments: Mapping[str, str] = MappingProxyType({})
    seen: str = ""
    finish_reason: str = ""
    is_submitted: bool = False
    seconds: float = 0.0


def turns(attempt: Attempt) -> Iterator[Call | Evaluation]:
    """Calls of the actor, what its critic wrote, the feedback, and the reflection, if it has words."""
    work, words = attempt.trajectory, attempt.reflection
    final, role, usage = work.reply or work.solution, "actor", work.usage
    if work.strategy == "escalation" and work.others and not usage.calls:  # it counts as the rung's, the last role
        role, usage = [*work.others.items()][-1]
    alone = Step(thought=work.rationale, messages=work.messages, reply=final, program=work.solution, usage=usage)
    steps = work.steps or (alone,)
    submitted = max(range(len(steps)), key=lambda number: (steps[number].program == work.solution, number))
    for number, step in enumerate(steps):
        reply, seen = step.reply or step.program or step.action, step.error or step.observation
        thought = "" if step.thought in reply else step.thought
        is_act = step.action and (work.strategy == "play" or work.extraction in ("play", "finish"))
        tool, arguments = ("act", {"action": step.action}) if is_act else (step.action, {})
        reason = work.finish_reason if reply == final else ""
        judged = number == submitted
        yield Call(role, step.messages, reply, step.usage, thought, tool, arguments, seen, reason, judged, step.seconds)
        if critique := step.critique:
            text = critique.reply or "\n".join((*critique.issues, *critique.suggestions))
            yield Call("critic", critique.messages, text, critique.usage, seconds=critique.seconds)
    yield attempt.evaluation
    if words and (words.text or any(words.texts)):
        text = words.text or "\n".join(f"{label}: {statement}" for label, statement in words.statements)
        yield Call("reflector", (), text, words.usage)


def spent_on(log: Log, task_id: str) -> Iterator[Mapping[str, Usage]]:
    """Usage by role of the attempts at a task, of the tests written for it, and of the curator after it."""
    yield from (attempt.usage for attempt in log.attempts[task_id])
    yield from ({"suite_writer": written.usage} for written in [log.written.get(task_id)] if written)
    yield from ({"curator": update.usage} for update in log.updates if update.task_ids[-1] == task_id)


def verdict(log: Log, task_id: str) -> bool | None:
    """The hidden verdict on the submission; None for a task that no rate counts."""
    return None if task_id in log.no_verdict or task_id not in log.submitted else log.submitted[task_id][1].passed


def models(log: Log) -> dict[str, str]:
    """Names of the models by role; a role that is absent has the actor's."""
    return dict(zip(("actor", *log.manifest.role_fingerprints), model_names(log.manifest), strict=True))


def is_in_dollars(log: Log) -> bool:
    """Whether the costs of the run are known, and in US dollars."""
    return log.currencies == ("USD",) and cost_is_known(log)
