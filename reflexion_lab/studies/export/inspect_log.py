"""A run as a log of inspect_ai: a sample per task, calls as events, and one score per sample, the hidden verdict.

Hidden tests are in no log. Times of single events are not recorded: the seconds of calls and tools are added up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

from inspect_ai import event, model, scorer, tool
from inspect_ai import log as logs

from reflexion_lab.analysis.comparison.cases import rows_of
from reflexion_lab.analysis.comparison.inspect_logs import JUDGE, OWN
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.bootstrap import linearised
from reflexion_lab.analysis.stats.clusters import by_cluster
from reflexion_lab.analysis.summary import summary
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Attempt, Evaluation, Usage
from reflexion_lab.records.attempt import identity
from reflexion_lab.runner.folder.manifest import is_seeded, settings
from reflexion_lab.studies.export.turns import Call, is_in_dollars, models, spent_on, turns, verdict
from reflexion_lab.studies.tracking.run_view import is_complete, params

STOPS: dict[str, Any] = {"stop": "stop", "length": "max_tokens", "context_overflow": "model_length",
                         "refusal": "content_filter", "content_filter": "content_filter"}  # fmt: skip
"""inspect_ai's names of finish reasons; others are `unknown`."""
MESSAGES: dict[str, Any] = {"system": model.ChatMessageSystem, "assistant": model.ChatMessageAssistant}
CUT = ("budget", "timeout", "cancelled")
"""Stop reasons that are limits of inspect_ai."""
OWN_FIELDS = ("run_id", "seed", "feedback_source", "is_upper_bound", "benchmark_digest", "tasks_digest", "study")


def save(path: Path, log: Log) -> Path:
    """Write the log of a run to `path` (.eval or .json); returns it. That of an unfinished run is `cancelled`, and
    without results.
    """
    is_done = is_complete(log)
    rows = rows_of(log) if is_done else {}
    transcripts = [_Transcript(log, task_id, rows.get(task_id, [])) for task_id in log.attempts]
    end = _start(log) + timedelta(seconds=sum(attempt.seconds for attempt in log.every))
    n, ended = log.manifest.n_expected, len(log.attempts) - len(log.unscored)
    document = logs.EvalLog(
        status="success" if is_done else "cancelled",
        eval=_spec(log, models(log)),
        results=logs.EvalResults(total_samples=n, completed_samples=ended, scores=[_result(log.headline)] * is_done),
        stats=logs.EvalStats(started_at=_start(log).isoformat(), completed_at=end.isoformat() if is_done else ""),
        samples=[transcript.sample() for transcript in transcripts],
    )
    document.stats.role_usage, document.stats.model_usage = _spent(log, summary(log).usage)
    logs.write_eval_log(document, path)
    return path


def _start(log: Log) -> datetime:
    return datetime.fromisoformat(log.manifest.created_at or "1970-01-01").replace(tzinfo=UTC)


def _spec(log: Log, names: dict[str, str]) -> logs.EvalSpec:
    of, ids = log.manifest, [identity(task_id) for task_id in log.attempts]
    own = {"arm": log.arm, "resumptions": len(log.resumptions), "deviations": list(log.deviations)}
    measured = sorted((key, repr(value)) for key, value in settings(of.config).items() if not is_seeded(key))
    own["settings"] = hashlib.sha256(repr(measured).encode(errors="replace")).hexdigest()[:16]
    tasks = list(dict.fromkeys(base for base, _ in ids))
    return logs.EvalSpec(
        eval_id=of.run_id, run_id=of.run_id, created=_start(log).isoformat(), task=of.benchmark, solver=log.arm,
        task_id=of.benchmark_digest or of.benchmark, task_args=dict(params(of)), model=names["actor"],
        tags=[f"upper bound: {of.leak}"] if of.leak else [],
        dataset=logs.EvalDataset(name=of.benchmark, samples=len(tasks), sample_ids=tasks),
        model_roles={role: model.ModelConfig(model=name) for role, name in names.items() if role != "actor"},
        config=logs.EvalConfig(epochs=max((epoch for _, epoch in ids), default=1)), packages=of.package_versions,
        revision=logs.EvalRevision(type="git", origin="", commit=of.git_commit, dirty=of.dirty),
        metadata={OWN: own | {name: getattr(of, name) for name in OWN_FIELDS}},
    )  # fmt: skip


def _result(log: Log) -> logs.EvalScore:
    """Share of passed cases, of those that pass@1 counts, and its standard error over clusters."""
    verdicts = [(task_id, passed) for task_id in log.attempts if (passed := verdict(log, task_id)) is not None]
    values: dict[str, float] = {}
    if verdicts:
        share, means = linearised(by_cluster(verdicts, log.clusters))
        values = {"upper_bound" if log.is_upper_bound else "accuracy": share}
        values |= {"stderr": float(means.std(ddof=1)) / len(means) ** 0.5} if len(means) > 1 else {}
    metrics = {name: logs.EvalMetric(name=name, value=value) for name, value in values.items()}
    n, every = len(verdicts), len(log.attempts)
    return logs.EvalScore(name=JUDGE, scorer=JUDGE, scored_samples=n, unscored_samples=every - n, metrics=metrics)


def _usage(usage: Usage, is_priced: bool) -> model.ModelUsage | None:
    """None where the server did not count all tokens."""
    if usage.uncounted:
        return None
    return model.ModelUsage(
        input_tokens=usage.prompt_tokens - usage.cached_tokens, input_tokens_cache_read=usage.cached_tokens or None,
        output_tokens=usage.completion_tokens, reasoning_tokens=usage.reasoning_tokens or None,
        total_tokens=usage.tokens, total_cost=usage.cost if is_priced else None,
    )  # fmt: skip


def _spent(log: Log, roles: Mapping[str, Usage]) -> tuple[dict[str, model.ModelUsage], dict[str, model.ModelUsage]]:
    """Usage by role, and by model, the latter empty where that of a role is unknown: readers add it up."""
    names = models(log)
    spent = {role: used for role, usage in roles.items() if (used := _usage(usage, is_in_dollars(log)))}
    by_model: dict[str, model.ModelUsage] = {}
    for role, used in spent.items() if len(spent) == len(roles) else ():
        name = names.get(role, names["actor"])
        by_model[name] = by_model[name] + used if name in by_model else used
    return spent, by_model


def _message(role: str, text: str) -> Any:
    """Equal ones have one id: inspect_ai stores them once."""
    return MESSAGES.get(role, model.ChatMessageUser)(id=f"{role}-{crc32(text.encode())}", content=text)


class _Transcript:
    """Messages and events of one task."""

    def __init__(self, log: Log, task_id: str, rows: list[dict[str, str]]) -> None:
        self.rows = rows
        self.log, self.task_id, self.names, self.is_priced = log, task_id, models(log), is_in_dollars(log)
        self.start, self.seconds, self.span = _start(log), 0.0, ""
        self.messages, self.prompt = list[model.ChatMessage](), list[model.ChatMessage]()
        self.events: list[event.Event] = []
        self.outputs: dict[int, model.ModelOutput] = {}
        """Of the submitted drafts, by attempt."""

    def sample(self) -> logs.EvalSample:
        log, (base, epoch), result = self.log, identity(self.task_id), self.log.results[self.task_id]
        attempts, roles = log.attempts[self.task_id], dict[str, Usage]()
        for attempt in attempts:
            self._attempt(attempt)
        for usages in spent_on(log, self.task_id):
            roles |= {role: roles.get(role, Usage()) + usage for role, usage in usages.items()}
        by_role, by_model = _spent(log, roles)
        submitted, is_broken = submitted_at(attempts), self.task_id in log.unscored
        score = None if is_broken or result.split == "train" else self._score(submitted)
        if score:
            self._add(event.ScoreEvent, score=score, scorer=JUDGE)
        error = logs.EvalError(message="harness error: no verdict", traceback="", traceback_ansi="")
        limit = logs.EvalSampleLimit(type="custom", limit=len(attempts), reason=result.stop_reason)
        facts = {
            "cluster": log.clusters.get(self.task_id, self.task_id), "split": result.split, "attempts": len(attempts),
            "submitted": submitted.number, "stop_reason": result.stop_reason, "cases": self.rows,
        }  # fmt: skip
        return logs.EvalSample(
            id=base, epoch=epoch, input=self.prompt or base, metadata=facts,
            target="the hidden tests pass", messages=self.messages, output=self.outputs[submitted.number],
            scores={JUDGE: score} if score else {}, events=self.events, role_usage=by_role,
            model_usage=by_model, total_time=result.duration, working_time=self.seconds,
            uuid=f"{log.manifest.run_id}/{self.task_id}", error=error if is_broken else None,
            limit=limit if result.stop_reason in CUT else None,
        )  # fmt: skip

    def _score(self, submitted: Attempt) -> scorer.Score:
        passed, grade = verdict(self.log, self.task_id), self.log.grades.get((self.task_id, submitted.number))
        code = submitted.trajectory.solution
        if passed is None or grade is None:
            return scorer.Score.unscored(answer=code, explanation="no hidden tests" if grade else "not graded yet")
        text = f"{grade.checks_passed} of {grade.checks_total} hidden tests of attempt {grade.number}: {grade.outcome}"
        return scorer.Score(value="C" if passed else "I", answer=code, explanation=text)

    def _attempt(self, attempt: Attempt) -> None:
        self.span = f"{self.task_id}-attempt-{attempt.number}"
        self._add(event.SpanBeginEvent, id=self.span, name=f"attempt {attempt.number}")
        if recalled := {kind: list(ids) for kind, ids in attempt.recalled_by_kind.items() if ids}:
            self._add(event.InfoEvent, source="memory", data=recalled)
        for turn in turns(attempt):
            if isinstance(turn, Evaluation):
                self._feedback(turn)
            elif (output := self._call(turn)) and turn.is_submitted:
                self.outputs[attempt.number] = output
        self._add(event.SpanEndEvent, id=self.span)
        self.span = ""

    def _feedback(self, judged: Evaluation) -> None:
        text, value = f"Feedback: {judged.outcome}\n{judged.feedback}".strip(), "C" if judged.passed else "I"
        if judged.has_verdict:
            score = scorer.Score(value=value, explanation=text, metadata={"reward": judged.reward})
            self._add(event.ScoreEvent, score=score, intermediate=True, scorer="feedback")
        self.seconds += judged.seconds
        self.messages.append(model.ChatMessageUser(content=text))

    def _call(self, call: Call) -> model.ModelOutput:
        prompt, place = [_message(each.role, each.content) for each in call.messages], f"call-{len(self.events)}"
        if not self.messages:
            self.messages, self.prompt = [*prompt], prompt
        name = self.names.get(call.role, self.names["actor"]) if call.usage.calls else ""
        text = f"{call.thought}\n\n{call.reply}" if call.thought else call.reply
        tools = [tool.ToolCall(id=place, function=call.tool, arguments=dict(call.arguments))] if call.tool else None
        reply = model.ChatMessageAssistant(id=place, content=text, model=name or None, tool_calls=tools)
        choice = model.ChatCompletionChoice(message=reply, stop_reason=STOPS.get(call.finish_reason, "unknown"))
        usage = _usage(call.usage, self.is_priced)
        output = model.ModelOutput(model=name, choices=[choice], usage=usage, time=call.usage.seconds)
        if call.usage.calls:
            self._add(event.ModelEvent, model=name, role=call.role, input=prompt, tools=[], tool_choice="auto",
                      config=model.GenerateConfig(), output=output)  # fmt: skip
        else:
            self._add(event.InfoEvent, source=call.role, data=text)
        self.seconds += call.usage.seconds + call.seconds
        self.messages.append(reply)
        if call.tool:
            self.messages.append(model.ChatMessageTool(content=call.seen, tool_call_id=place, function=call.tool))
        elif call.seen:
            self.messages.append(model.ChatMessageUser(content=call.seen))
        return output

    def _add(self, kind: Any, **fields: Any) -> None:
        fields |= {"uuid": f"{self.task_id}-{len(self.events)}", "span_id": self.span or None}
        now = self.start + timedelta(seconds=self.seconds)
        self.events.append(kind(timestamp=now, working_start=self.seconds, **fields))
