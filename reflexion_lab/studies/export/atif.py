"""Tasks as ATIF trajectories (Agent Trajectory Interchange Format, RFC 0001 of Harbor), version 1.8.

Steps are prompts (`system`, `user`) and calls (`agent`), the actor's with what its tool returned as observations, and
the submitted draft's with the feedback; then the reflection. A retry is a new conversation, so its prompt follows, and
so does that of a critic or a revision.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.io import files
from reflexion_lab.records import Evaluation, Message, Usage
from reflexion_lab.studies.export.turns import is_in_dollars, models, spent_on, turns, verdict


def save(folder: Path, log: Log) -> list[Path]:
    """Write a JSON file per task that has ended into `folder`, which must exist; returns the paths. Raises OSError."""
    paths: list[Path] = []
    for task_id in sorted(log.attempts):
        name = re.sub(r"[^A-Za-z0-9.@-]", "_", task_id)[:100]
        copies = (folder / f"{name}{end}.json" for end in ("", *(f"_{number}" for number in range(len(log.attempts)))))
        paths.append(next(path for path in copies if path not in paths))
        text = msgspec.json.format(msgspec.json.encode(trajectory(log, task_id)), indent=1)
        files.replace(paths[-1], [text])
    return paths


def trajectory(log: Log, task_id: str) -> dict[str, Any]:
    """The trajectory of a task as JSON values."""
    of, is_priced, steps = log.manifest, is_in_dollars(log), list(_steps(log, task_id))
    spent = sum((usage for usages in spent_on(log, task_id) for usage in usages.values()), Usage())
    totals = {f"total_{name}": value for name, value in _metrics(spent, is_priced).items()}
    agent = {"name": "reflexion_lab", "version": of.package_versions.get("reflexion_lab", "unknown"),
             "model_name": models(log)["actor"], "extra": {"arm": log.arm, "seed": of.seed}}  # fmt: skip
    return {
        "schema_version": "ATIF-v1.8", "session_id": of.run_id, "trajectory_id": f"{of.run_id}/{task_id}",
        "agent": agent, "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "notes": "The totals include calls that are no steps, such as those of a curator.",
        "final_metrics": {**totals, "total_steps": len(steps)},
        "extra": {"benchmark": of.benchmark, "task": task_id, "passed": verdict(log, task_id), "leak": of.leak,
                  "stop_reason": log.results[task_id].stop_reason},
    }  # fmt: skip


def _steps(log: Log, task_id: str) -> Iterator[dict[str, Any]]:
    names, is_priced = models(log), is_in_dollars(log)
    for attempt in log.attempts[task_id]:
        extra: dict[str, Any] = {"attempt": attempt.number, "parent": attempt.parent}
        steps, prompt = list[dict[str, Any]](), tuple[Message, ...]()
        goes_on, judged = False, 0
        for number, turn in enumerate(turns(attempt)):
            if isinstance(turn, Evaluation):
                facts = {"outcome": turn.outcome, "reward": turn.reward}
                _observe(steps[judged], content=turn.feedback or turn.outcome, extra=facts)
                continue
            if turn.messages and turn.messages != prompt and not goes_on:  # else what follows it are steps
                prompt = turn.messages
                steps += [_prompt(message, {**extra, "role": turn.role}) for message in prompt]
            goes_on, judged = bool(turn.tool or turn.seen), len(steps) if turn.is_submitted else judged
            step: dict[str, Any] = {"source": "agent", "message": turn.reply, "llm_call_count": turn.usage.calls}
            step["extra"] = {**extra, "role": turn.role}
            if turn.usage.calls:  # else no model wrote it, and the format allows none of these
                step |= {"model_name": names.get(turn.role, names["actor"])}
                step |= {"metrics": _metrics(turn.usage, is_priced)}
                step |= {"reasoning_content": turn.thought} if turn.thought else {}
            steps.append(step)
            if turn.tool:
                name = f"{attempt.number}-{number}"
                call = {"tool_call_id": name, "function_name": turn.tool, "arguments": dict(turn.arguments)}
                step["tool_calls"] = [call]
                _observe(step, source_call_id=name, content=turn.seen)
            elif turn.seen:
                _observe(step, content=turn.seen)
        yield from steps


def _prompt(message: Message, extra: dict[str, Any]) -> dict[str, Any]:
    source = {"system": "system", "assistant": "agent"}.get(message.role, "user")
    of_model = {"llm_call_count": 0} if source == "agent" else {}
    return {"source": source, "message": message.content, **of_model, "extra": extra}


def _observe(step: dict[str, Any], **result: Any) -> None:
    step.setdefault("observation", {"results": []})["results"].append(result)


def _metrics(usage: Usage, is_priced: bool) -> dict[str, int | float]:
    """Tokens, if the server counted them, and US dollars."""
    names = () if usage.uncounted else ("prompt_tokens", "completion_tokens", "cached_tokens")
    return {name: getattr(usage, name) for name in names} | ({"cost_usd": usage.cost} if is_priced else {})
