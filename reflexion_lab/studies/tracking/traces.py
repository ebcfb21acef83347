"""Writes the traces of a run that has ended.

MLflow's own exporter takes each trace for itself, about 17 a second. Here their heads are written first and the spans
of many at once: spans that find their head need no second look.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.secrets import without_login
from reflexion_lab.records import Attempt, Message, Record, Reflection, Step, Usage

BATCH = 50
"""Traces written at once."""
DELETED_AT_ONCE = 100
"""Traces that MLflow deletes by id in one call, at most."""


class TraceWriter:
    """Writes and removes the traces of runs.

    Parameters
    ----------
    share : float, default 0.0
        Of the tasks, in [0, 1]; above 1, so many tasks.
    most : int, default 1000
        Attempts of one run, at most.

    Raises
    ------
    ConfigError
        An argument is impossible.
    """

    def __init__(self, share: float = 0.0, most: int = 1000) -> None:
        if not (0 <= share <= 1 or (share > 1 and share == int(share))):
            raise ConfigError("tracker.traces", share, "a share of the tasks in [0, 1], or a number of them")
        if most < 1:
            raise ConfigError("tracker.max_traces", most, "1 or more")
        self.share = share
        self.most = most

    def write(self, client: Any, experiment_id: str, run_id: str, log: Log, began: int) -> int:
        """Write the traces of `log` beside MLflow's run; returns how many. `began`: milliseconds since the epoch."""
        tasks = sampled(list(log.attempts), self.share, log.manifest.seed)
        total = sum(len(log.attempts[task_id]) for task_id in tasks)
        if not total:
            return 0
        from tqdm.auto import tqdm

        records = islice(traces(log, tasks, began * 1_000_000), self.most)
        with tqdm(total=min(total, self.most), unit="trace", desc="traces", leave=False, disable=None) as bar:
            while batch := list(islice(records, BATCH)):
                _write(client.tracking_uri, experiment_id, run_id, batch)
                bar.update(len(batch))
        if total > self.most:
            print(f"traces: {self.most} of {total} attempts written; tracker.max_traces ends them", file=sys.stderr)
        return min(total, self.most)


def remove(client: Any, experiment_id: str, run_id: str) -> None:
    """Delete every trace of MLflow's run."""
    where = f"metadata.`mlflow.sourceRun` = '{run_id}'"
    while stored := client.search_traces(
        locations=[experiment_id], filter_string=where, include_spans=False, max_results=DELETED_AT_ONCE
    ):
        client.delete_traces(experiment_id, trace_ids=[trace.info.trace_id for trace in stored])


def _write(uri: str, experiment_id: str, run_id: str, batch: Sequence[Trace]) -> None:
    from mlflow.entities import Span
    from mlflow.tracing.client import TracingClient

    client = TracingClient(uri)
    for trace in batch:
        client.start_trace(_head(trace, experiment_id, run_id))
    spans = [_span(placed, number, _id(trace, run_id)) for trace in batch for number, placed in enumerate(trace.placed)]
    client.log_spans(experiment_id, [Span.from_dict(span) for span in spans])


def _head(trace: Trace, experiment_id: str, run_id: str) -> Any:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    usage = _tokens([placed.span.usage for placed in trace.placed])
    tags = trace.tags
    arm = f"{tags['arm']} s{tags['seed']}"
    name = f"{tags['task_id']}, attempt {tags['attempt']}: {arm}"
    return TraceInfo(
        trace_id=_id(trace, run_id),
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=trace.began // 1_000_000,
        state=TraceState.OK,
        execution_duration=trace.span.lasted // 1_000_000,
        request_preview=name,
        response_preview=f"feedback: {tags['feedback']}; {AFTER}: {tags[AFTER]}",
        tags={"mlflow.traceName": name, **tags},
        trace_metadata={
            "mlflow.sourceRun": run_id,
            "mlflow.trace.session": _fitting(
                f"{tags['task_id']} {arm} {tags['run_id']}"
            ),  # a column of a few characters
            "mlflow.trace.tokenUsage": json.dumps(usage),
        },
    )


def _fitting(session: str) -> str:
    """A session's id within the 250 characters that MLflow takes, different for different sessions."""
    if len(session) <= 250:
        return session
    return f"{session[:230]}… {hashlib.sha256(session.encode()).hexdigest()[:16]}"


def _span(placed: Placed, number: int, trace_id: str) -> dict[str, Any]:
    """As MLflow's `Span.from_dict` reads it; attributes are JSON each."""
    span = placed.span
    attributes = {
        "mlflow.traceRequestId": json.dumps(trace_id),
        "mlflow.spanType": json.dumps(span.kind),
        "mlflow.spanInputs": span.inputs,
        "mlflow.spanOutputs": span.outputs,
    }
    if span.usage.calls:
        attributes["mlflow.chat.tokenUsage"] = json.dumps(_tokens([span.usage]))
    return {
        "trace_id": trace_id,
        "span_id": _span_id(number),
        "parent_span_id": None if placed.parent is None else _span_id(placed.parent),
        "name": span.name,
        "start_time_unix_nano": placed.began,
        "end_time_unix_nano": placed.began + span.lasted,
        "status": {"code": "OK", "message": ""},
        "attributes": attributes,
        "events": [],
    }


def _id(trace: Trace, run_id: str) -> str:
    name = f"{run_id}/{trace.tags['task_id']}/{trace.tags['attempt']}"
    return f"tr-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def _span_id(number: int) -> str:
    return f"{number + 1:016x}"


def _tokens(usages: Iterable[Usage]) -> dict[str, int]:
    total = sum(usages, Usage())
    return {
        "input_tokens": total.prompt_tokens,
        "output_tokens": total.completion_tokens,
        "total_tokens": total.tokens,
    }


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


def sampled(tasks: Sequence[str], traces: float, seed: int) -> list[str]:
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
