"""An attempt as spans: who was asked what, what came back, what it took. Nothing here knows where it will be shown."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.io.secrets import without_login
from reflexion_lab.records import Attempt, Message, Record, Reflection, Step, Usage

AFTER = "graded after the loop"
"""The tag of the hidden verdict, which no step in these spans could see."""


class Span(Record, frozen=True, kw_only=True):
    """One step and those within it."""

    name: str
    kind: str
    """As MLflow calls it: `AGENT`, `LLM`, `EVALUATOR`, `TOOL`."""
    inputs: str
    """JSON."""
    outputs: str
    """JSON."""
    usage: Usage = Usage()
    """Of its own calls."""
    seconds: float = 0.0
    """Its own, without those of `inner`."""
    inner: tuple[Span, ...] = ()

    @property
    def lasted(self) -> int:
        """Nanoseconds, `inner` included."""
        return round(self.seconds * 1e9) + sum(span.lasted for span in self.inner)


class Placed(NamedTuple):
    """A span in time."""

    span: Span
    began: int
    """Nanoseconds since the epoch."""
    parent: int | None
    """The place of the span that it is within; None for the first."""


class Trace(Record, frozen=True, kw_only=True):
    """One attempt."""

    began: int
    """Nanoseconds since the epoch."""
    tags: dict[str, str]
    span: Span

    @property
    def placed(self) -> list[Placed]:
        """Every span, the attempt itself first; those within one follow each other after its own seconds."""
        spans: list[Placed] = []
        _place(self.span, self.began, None, spans)
        return spans


def drawn(tasks: Sequence[str], traces: float, seed: int) -> list[str]:
    """Sample a share of `tasks` (`traces` up to 1) or a number of them. A larger sample contains every smaller one."""
    shuffled = sorted(tasks)
    random.Random(f"{seed}:traces").shuffle(shuffled)
    return shuffled[: math.ceil(traces * len(tasks)) if traces <= 1 else int(traces)]


def traces(log: Log, tasks: Sequence[str], began: int) -> Iterator[Trace]:
    """The attempts at `tasks`, in order.

    A run folder has durations of steps, not start times: here every loop starts at `began`, and its steps follow each
    other without a gap.
    """
    for task_id in tasks:
        at = began
        for attempt in log.attempts[task_id]:
            trace = Trace(began=at, tags=_tags(log, attempt), span=_attempt(attempt))
            yield trace
            at += trace.span.lasted


def _place(span: Span, began: int, parent: int | None, placed: list[Placed]) -> None:
    own = len(placed)
    placed.append(Placed(span, began, parent))
    at = began + round(span.seconds * 1e9)
    for inner in span.inner:
        _place(inner, at, own, placed)
        at += inner.lasted


def _tags(log: Log, attempt: Attempt) -> dict[str, str]:
    manifest, grade = log.manifest, log.grades.get((attempt.task_id, attempt.number))
    values = {
        "task_id": attempt.task_id,
        "attempt": str(attempt.number),
        "arm": str(manifest.config.get("arm", "run")),
        "seed": str(manifest.seed),
        "run_id": manifest.run_id,
        "feedback_source": manifest.feedback_source,
        "feedback": attempt.evaluation.outcome,
        AFTER: grade.outcome if grade else "not graded",
    }
    return {name: without_login(value) for name, value in values.items()}


def _attempt(attempt: Attempt) -> Span:
    trajectory, evaluation = attempt.trajectory, attempt.evaluation
    evaluator = Span(
        name="evaluator",
        kind="EVALUATOR",
        inputs=_json({"program": _code(trajectory.solution)}),
        outputs=_json(
            {
                "outcome": evaluation.outcome,
                "reward": evaluation.reward,
                "feedback": evaluation.feedback,
                "checks": {check.name: check.outcome for check in evaluation.checks},
            }
        ),
        seconds=evaluation.seconds,
    )
    return Span(
        name=f"attempt {attempt.number}: {attempt.task_id}",
        kind="AGENT",
        inputs=_json({"task": attempt.task_id, "recalled": attempt.recalled, "wisdom": attempt.recalled_wisdom}),
        outputs=_json(
            {"outcome": evaluation.outcome, "program": _code(trajectory.solution), "stop_reason": attempt.stop_reason}
        ),
        inner=(
            _actor(attempt),
            evaluator,
            *([_reflector(attempt.reflection, evaluation.feedback)] if attempt.reflection else []),
        ),
    )


def _actor(attempt: Attempt) -> Span:
    trajectory = attempt.trajectory
    steps = tuple(_step(step, number) for number, step in enumerate(trajectory.steps, 1))
    usage = sum(trajectory.others.values(), Usage())
    tokens = usage + trajectory.usage
    return Span(
        name="actor",
        kind="AGENT" if steps else "LLM",
        inputs=_messages(trajectory.messages),
        outputs=_json(
            {"reply": trajectory.reply, "extraction": trajectory.extraction, "finish_reason": trajectory.finish_reason}
        ),
        usage=Usage() if steps else tokens,  # MLflow adds up those within
        seconds=max(0.0, tokens.seconds - sum(span.usage.seconds for span in steps)),
        inner=steps,
    )


def _step(step: Step, number: int) -> Span:
    critique = step.critique
    review = {"issues": critique.issues, "reply": critique.reply} if critique else None
    usage = step.usage + (critique.usage if critique else Usage())
    return Span(
        name=f"step {number}" + (f": {step.action}" if step.action else ""),
        kind="LLM" if usage.calls else "TOOL",
        inputs=_messages(step.messages),
        outputs=_json({"reply": step.reply, "observation": step.observation, "error": step.error, "critique": review}),
        usage=usage,
        seconds=usage.seconds + step.seconds + (critique.seconds if critique else 0.0),
    )


def _reflector(reflection: Reflection, feedback: str) -> Span:
    """A folder does not hold the reflector's prompt; its reply is there word for word."""
    words = {name: getattr(reflection, name) for name in ("source", "root_cause", "what_went_wrong", "what_to_change")}
    return Span(
        name="reflector",
        kind="LLM" if reflection.usage.calls else "AGENT",
        inputs=_json({"about_attempt": reflection.about_attempt, "feedback": feedback}),
        outputs=_json({"reply": reflection.text, **words, "confidence": reflection.confidence}),
        usage=reflection.usage,
        seconds=reflection.usage.seconds,
    )


def _code(program: str) -> str:
    """Fenced, since a page that takes it for prose makes a headline of a comment and one line of many."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", program)), default=0))
    return f"{fence}python\n{program}\n{fence}" if program else ""


def _messages(messages: Sequence[Message]) -> str:
    return _json({"messages": [{"role": message.role, "content": message.content} for message in messages]})


def _json(value: object) -> str:
    return without_login(msgspec.json.encode(value).decode())
