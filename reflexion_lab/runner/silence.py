"""Roles whose model says nothing: replies that are empty, or cut at `max_tokens` before they held anything."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from reflexion_lab.errors import SilentModel
from reflexion_lab.records import Attempt, Usage
from reflexion_lab.runner.folder.folder import RunFolder


def silence(role: str, replies: int, silent: Usage, config: Mapping[str, Any], ends: Iterable[str] = ()) -> str:
    """How many `replies` of `role` said nothing, and a key that helps. `silent`: usage; `ends`: finish reasons."""
    roles = config.get("roles") or {}
    model, node = (f"roles.{role}", roles[role]) if role in roles else ("model", config.get("model") or {})
    parts, advice = [], []
    if silent.cut_replies:
        key, limit = _limit(role, model, node, config)
        thoughts = f", {silent.reasoning_tokens:,} of their {silent.completion_tokens:,} tokens reasoning"
        ended = f"ended at {'max_tokens' if limit is None else f'max_tokens={limit}'}"
        parts.append(f"{silent.cut_replies} of {replies} replies {ended}{thoughts * bool(silent.reasoning_tokens)}")
        advice.append(f"raise {key}")
    if silent.empty_replies:
        reasons = ", ".join(sorted(set(ends) - {"stop", "length"}))
        is_hidden = bool(silent.reasoning_tokens and not silent.cut_replies)
        text = f"{silent.empty_replies} of {replies} replies are empty{f' ({reasons})' * bool(reasons)}"
        parts.append(text + ", all of their text in reasoning_content" * is_hidden)
        extra = "{chat_template_kwargs:{enable_thinking:false}}" if is_hidden else ""
        extra = "{tool_choice:none}" if "tool_calls" in reasons else extra
        wrong = f"see whether {model}.model and {model}.extra_body suit this server"
        advice.append(f"set {model}.extra_body={extra}" if extra else wrong)
    return f"{'; '.join(parts)}: {' and '.join(advice)}"


def _limit(role: str, model: str, node: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[str, object]:
    """The key of the longest reply of `role`, and its value; None if it is not known."""
    extra = node.get("extra_body") or {}
    for name in ("max_completion_tokens", "max_tokens"):
        if extra.get(name):
            return f"{model}.extra_body.{name}", extra[name]
    return _sampling(role, config.get(role)) or (f"{role}.sampling.max_tokens", None)


def _sampling(path: str, node: object) -> tuple[str, object] | None:
    if not isinstance(node, Mapping):
        return None
    if "max_tokens" in node and path.endswith(".sampling"):
        return f"{path}.max_tokens", node["max_tokens"]
    return next(filter(None, (_sampling(f"{path}.{key}", value) for key, value in node.items())), None)


def is_silent(attempt: Attempt) -> bool:
    """Whether every reply of the actor is empty or cut, and none holds a program or an action."""
    trajectory, usage = attempt.trajectory, attempt.trajectory.usage
    acts = trajectory.solution.strip() or any(step.action or step.program for step in trajectory.steps)
    return not acts and 0 < usage.replies <= usage.empty_replies + usage.cut_replies


class FirstReplies:
    """Stops a run in whose first attempts, in the order of tasks, all replies say nothing. Thread-safe.

    The order makes the decision independent of the number of workers; attempts without a reply do not count, and
    tasks that are set aside are not waited for. `order`: ids of all tasks. `limit`: number of attempts; None: the run
    is never stopped. `folder`: of the run.
    """

    def __init__(self, order: Sequence[str], limit: int | None, folder: RunFolder) -> None:
        self.stored: Mapping[str, Sequence[Attempt]] = {}
        """Attempts at the tasks that had ended before a run was resumed."""
        self._order, self._limit, self._folder = order, limit, folder
        self._attempts: dict[str, list[Attempt]] = {}
        self._set_aside: set[str] = set()
        self._lock = threading.Lock()

    def check(self, attempt: Attempt | None = None, set_aside: str = "") -> None:
        """Add `attempt`, or the id of a task that is set aside. Raises SilentModel."""
        with self._lock:
            if self._limit is None:
                return
            self._set_aside.add(set_aside)
            if attempt:
                texts = replace(attempt.trajectory, messages=(), reply="", rationale="")
                attempts = self._attempts.setdefault(attempt.task_id, [])
                attempts[attempt.number - 1 :] = [replace(attempt, trajectory=texts)]  # a loop may begin again
            silent, ends = Usage(), list[str]()
            for each in self._first():
                trajectory = each.trajectory
                if not trajectory.usage.replies:
                    continue
                if not is_silent(each):
                    self._limit = None
                    self._attempts.clear()
                    return
                silent += trajectory.usage
                ends.append(trajectory.finish_reason)
                if len(ends) >= self._limit:
                    config = self._folder.manifest.config
                    raise SilentModel(silence("actor", silent.replies, silent, config, ends), self._limit)

    def _first(self) -> Iterator[Attempt]:
        """The attempts up to the first loop that has not ended."""
        for task_id in self._order:
            attempts = self._attempts.get(task_id) or self.stored.get(task_id, ())
            yield from attempts
            if task_id not in self._set_aside and not (attempts and attempts[-1].stop_reason):
                return
