"""Traces: attempts as spans of actor, evaluator and reflector, written once the run has ended.

MLflow's own exporter takes each trace by itself, about 17 per second. Here trace heads are written first and the spans
of many traces at once: spans that find their head need no second look.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.secrets import without_login
from reflexion_lab.records import Attempt, Message, Reflection, Step, Usage

BATCH = 50
"""Traces written at once."""
LONGEST_SESSION = 250
"""Characters of a session's id."""
DELETED_AT_ONCE = 100
"""Traces that MLflow deletes by id in one call, at most."""
AFTER = "graded after the loop"
"""Tag of the hidden verdict, which no step in the spans could see."""


class Span(NamedTuple):
    """One step. Times are nanoseconds since the epoch."""

    name: str
    kind: str
    """As MLflow calls it: `AGENT`, `LLM`, `EVALUATOR`, `TOOL`."""
    inputs: str
    """JSON."""
    outputs: str
    """JSON."""
    began: int
    ended: int
    parent: int | None = 0
    """Index of the enclosing span in its trace; None for the first."""
    usage: Usage = Usage()
    """Usage of its own calls."""


class Trace(NamedTuple):
    """One attempt."""

    tags: dict[str, str]
    spans: list[Span]
    """The attempt itself, then its steps; an inner span follows the one around it."""


def check(share: float, most: int) -> None:
    """Check the share of traced tasks, above 1 their number, and the maximal number of traces. Raises ConfigError."""
    if not (0 <= share <= 1 or (share > 1 and share == int(share))):
        raise ConfigError("tracker.traces", share, "a share of the tasks in [0, 1], or a number of them")
    if most < 1:
        raise ConfigError("tracker.max_traces", most, "1 or more")


def write(client: Any, experiment_id: str, run_id: str, log: Log, began: int, share: float, most: int) -> None:
    """Write the traces of `log` to MLflow's run.

    Parameters
    ----------
    began : int
        Start of the run, milliseconds since the epoch.
    share, most
        As `check` takes them.
    """
    tasks = sampled(list(log.attempts), share, log.manifest.seed)
    total = sum(len(log.attempts[task_id]) for task_id in tasks)
    if not total:
        return
    from tqdm.auto import tqdm

    records = islice(traces(log, tasks, began * 1_000_000), most)
    with tqdm(total=min(total, most), unit="trace", desc="traces", leave=False, disable=None) as bar:
        while batch := list(islice(records, BATCH)):
            _write(client.tracking_uri, experiment_id, run_id, batch)
            bar.update(len(batch))
    if total > most:
        print(f"traces: {most} of {total} attempts written; tracker.max_traces ends them", file=sys.stderr)


def remove(client: Any, experiment_id: str, run_id: str) -> None:
    """Delete all traces of MLflow's run."""
    where = f"metadata.`mlflow.sourceRun` = '{run_id}'"
    while stored := client.search_traces(
        locations=[experiment_id], filter_string=where, include_spans=False, max_results=DELETED_AT_ONCE
    ):
        client.delete_traces(experiment_id, trace_ids=[trace.info.trace_id for trace in stored])


def _write(uri: str, experiment_id: str, run_id: str, batch: Sequence[Trace]) -> None:
    from mlflow.entities import Span as MlflowSpan
    from mlflow.tracing.client import TracingClient

    client, spans = TracingClient(uri), []
    for trace in batch:
        name = f"{run_id}/{trace.tags['task_id']}/{trace.tags['attempt']}"
        trace_id = f"tr-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        client.start_trace(_head(trace, trace_id, experiment_id, run_id))
        spans += [MlflowSpan.from_dict(_plain(span, number, trace_id)) for number, span in enumerate(trace.spans)]
    client.log_spans(experiment_id, spans)


def _head(trace: Trace, trace_id: str, experiment_id: str, run_id: str) -> Any:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    tags, attempt = trace.tags, trace.spans[0]
    arm = f"{tags['arm']} s{tags['seed']}"
    name = f"{tags['task_id']}, attempt {tags['attempt']}: {arm}"
    session = f"{tags['task_id']} {arm} {tags['run_id']}"  # a narrow column: the task comes first
    if len(session) > LONGEST_SESSION:
        session = f"{session[:230]}… {hashlib.sha256(session.encode()).hexdigest()[:16]}"
    return TraceInfo(
        trace_id=trace_id,
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=attempt.began // 1_000_000,
        state=TraceState.OK,
        execution_duration=(attempt.ended - attempt.began) // 1_000_000,
        request_preview=name,
        response_preview=f"feedback: {tags['feedback']}; {AFTER}: {tags[AFTER]}",
        tags={"mlflow.traceName": name, **tags},
        trace_metadata={
            "mlflow.sourceRun": run_id,
            "mlflow.trace.session": session,
            "mlflow.trace.tokenUsage": _tokens(sum((span.usage for span in trace.spans), Usage())),
        },
    )


def _plain(span: Span, number: int, trace_id: str) -> dict[str, Any]:
    """As MLflow's `Span.from_dict` reads it; attributes are JSON each."""
    attributes = {
        "mlflow.traceRequestId": json.dumps(trace_id),
        "mlflow.spanType": json.dumps(span.kind),
        "mlflow.spanInputs": span.inputs,
        "mlflow.spanOutputs": span.outputs,
    }
    if span.usage.calls:
        attributes["mlflow.chat.tokenUsage"] = _tokens(span.usage)
    return {
        "trace_id": trace_id,
        "span_id": _span_id(number),
        "parent_span_id": None if span.parent is None else _span_id(span.parent),
        "name": span.name,
        "start_time_unix_nano": span.began,
        "end_time_unix_nano": span.ended,
        "status": {"code": "OK", "message": ""},
        "attributes": attributes,
        "events": [],
    }


def _span_id(number: int) -> str:
    return f"{number + 1:016x}"


def _tokens(usage: Usage) -> str:
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    counts = {"input_tokens": prompt, "output_tokens": completion, "total_tokens": usage.tokens}
    return json.dumps(counts | ({"cache_read_input_tokens": usage.cached_tokens} if usage.cached_tokens else {}))


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
            spans = _spans(attempt, at)
            yield Trace(_tags(log, attempt), spans)
            at = spans[0].ended


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


def _spans(attempt: Attempt, began: int) -> list[Span]:
    trajectory, evaluation, reflection = attempt.trajectory, attempt.evaluation, attempt.reflection
    usage = sum(trajectory.others.values(), Usage()) + trajectory.usage
    steps: list[Span] = []
    at = began + _nanoseconds(max(0.0, usage.seconds - sum(_usage(step).seconds for step in trajectory.steps)))
    for number, step in enumerate(trajectory.steps, 1):
        steps.append(_step(step, number, at))
        at = steps[-1].ended
    kind, own = ("AGENT", Usage()) if steps else ("LLM", usage)  # MLflow adds up the usage of steps
    reply = {name: getattr(trajectory, name) for name in ("reply", "extraction", "finish_reason")}
    actor = Span("actor", kind, _messages(trajectory.messages), _json(reply), began, at, usage=own)
    program = _code(trajectory.solution)
    checks = {check.name: check.outcome for check in evaluation.checks}
    verdict = {name: getattr(evaluation, name) for name in ("outcome", "reward", "feedback")} | {"checks": checks}
    ended = at + _nanoseconds(evaluation.seconds)
    evaluator = Span("evaluator", "EVALUATOR", _json({"program": program}), _json(verdict), at, ended)
    last = [_reflector(reflection, evaluation.feedback, ended)] if reflection else []
    whole = Span(
        name=f"attempt {attempt.number}: {attempt.task_id}",
        kind="AGENT",
        inputs=_json({"task": attempt.task_id, **_recalled(attempt)}),
        outputs=_json({"outcome": evaluation.outcome, "program": program, "stop_reason": attempt.stop_reason}),
        began=began,
        ended=(last or [evaluator])[0].ended,
        parent=None,
    )
    return [whole, actor, *steps, evaluator, *last]


def _recalled(attempt: Attempt) -> dict[str, Sequence[str]]:
    items = {"items": attempt.recalled_items} if attempt.recalled_items else {}
    return {"recalled": attempt.recalled, "wisdom": attempt.recalled_wisdom, **items}


def _step(step: Step, number: int, began: int) -> Span:
    critique, usage = step.critique, _usage(step)
    review = {"issues": critique.issues, "reply": critique.reply} if critique else None
    return Span(
        name=f"step {number}" + (f": {step.action}" if step.action else ""),
        kind="LLM" if usage.calls else "TOOL",
        inputs=_messages(step.messages),
        outputs=_json({"reply": step.reply, "observation": step.observation, "error": step.error, "critique": review}),
        began=began,
        ended=began + _nanoseconds(usage.seconds + step.seconds + (critique.seconds if critique else 0.0)),
        parent=1,  # the actor
        usage=usage,
    )


def _usage(step: Step) -> Usage:
    return step.usage + (step.critique.usage if step.critique else Usage())


def _reflector(reflection: Reflection, feedback: str, began: int) -> Span:
    """A run folder does not hold the reflector's prompt; its reply is verbatim."""
    names = ("source", "root_cause", "what_went_wrong", "what_to_change", "confidence")
    words = {"reply": reflection.text} | {name: getattr(reflection, name) for name in names}
    inputs = _json({"about_attempt": reflection.about_attempt, "feedback": feedback})
    kind, ended = "LLM" if reflection.usage.calls else "AGENT", began + _nanoseconds(reflection.usage.seconds)
    return Span("reflector", kind, inputs, _json(words), began, ended, usage=reflection.usage)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _code(program: str) -> str:
    """A fenced block, so that the page does not render it as prose."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", program)), default=0))
    return f"{fence}python\n{program}\n{fence}" if program else ""


def _messages(messages: Sequence[Message]) -> str:
    return _json({"messages": [{"role": message.role, "content": message.content} for message in messages]})


def _json(value: object) -> str:
    return without_login(msgspec.json.encode(value).decode())
