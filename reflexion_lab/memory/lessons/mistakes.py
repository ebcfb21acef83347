"""Mistakes: failures on earlier tasks with their corrections."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from itertools import count, pairwise

from msgspec.structs import replace

from reflexion_lab.limits import Positive, Share, validated
from reflexion_lab.memory.retrieval.texts import signature
from reflexion_lab.memory.retrieval.trace import note
from reflexion_lab.protocols import Retriever
from reflexion_lab.records import UNKNOWN, Attempt, Evaluation, Mistake, Task

CHECK_CHARS = 200
"""Maximum characters of a quoted check."""


class Mistakes:
    """The newest mistakes, retrieved by similar prompts. They change between rounds only, while no loop reads them.

    `retriever`: empty, for this memory alone. `max_entries`: capacity; the oldest mistake is evicted. `threshold`:
    minimum score of a retrieved mistake, in [0, 1], inclusive.
    """

    @validated
    def __init__(self, retriever: Retriever, max_entries: Positive = 1000, threshold: Share = 0.25) -> None:
        self.max_entries = max_entries
        self.threshold = threshold
        self._retriever = retriever
        # By the retriever's document numbers, in order of arrival.
        self._entries: dict[int, Mistake] = {}
        self._numbers: dict[str, int] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._entries)

    def extend(self, mistakes: Iterable[Mistake]) -> list[Mistake]:
        """Add mistakes, oldest first; returns them as stored.

        A known id is replaced in place, under its older document, and keeps its correction if the new one has none. A
        mistake without a time is dated now. Those without a prompt are left out: none is similar to it.
        """
        dated = (entry if entry.timestamp else replace(entry, timestamp=time.time()) for entry in mistakes)
        entries = [entry for entry in dated if entry.prompt.strip()]
        new = {entry.mistake_id: entry.prompt for entry in entries if entry.mistake_id not in self._numbers}
        if new:
            self._retriever.add(list(new.values()))
        self._numbers |= dict(zip(new, count(self._next)))
        self._next += len(new)
        stored = []
        for entry in entries:
            number = self._numbers[entry.mistake_id]
            older = self._entries.get(number, entry)
            self._entries[number] = replace(entry, correction=entry.correction or older.correction)
            stored.append(self._entries[number])
        while len(self._entries) > self.max_entries:
            oldest = self._entries.pop(self._next - len(self._entries))
            del self._numbers[oldest.mistake_id]
        self._retriever.forget(self._next - len(self._entries))
        return stored

    def retrieve_similar(self, prompt: str, k: int = 3, *, except_task: str = "") -> list[Mistake]:
        """At most `k` mistakes with the most similar prompts, best first, the newer first on a tie.

        Mistakes of the task with id `except_task` are excluded; "" excludes none.
        """
        if k <= 0:
            return []
        own = sum(mistake.task_id == except_task for mistake in self._entries.values()) if except_task else 0
        hits = self._retriever.rank(prompt, k + own)
        near = {hit.number: self._entries[hit.number] for hit in hits if hit.score >= self.threshold}
        note(self._retriever, prompt, hits, near)
        return [mistake for mistake in near.values() if not except_task or mistake.task_id != except_task][:k]


def mistakes_of(
    task: Task, attempts: Sequence[Attempt], timestamp: float | None = None, session_id: str = ""
) -> list[Mistake]:
    """Distinct mistakes of one task's attempts, oldest first; attempts without a verdict are skipped.

    The correction is `what_to_change` of the last reflection before an attempt passed. `attempts`: oldest first.
    `timestamp`: seconds since the epoch; None: now.
    """
    now = time.time() if timestamp is None else timestamp
    prompt_hash = _digest(task.prompt)
    mistakes: dict[str, Mistake] = {}
    for place, attempt in enumerate(attempts):
        evaluation = attempt.evaluation
        if evaluation.passed or evaluation.outcome in UNKNOWN:
            continue
        kind = "\n".join([signature(evaluation) or evaluation.outcome, *_failing_check(evaluation)])
        before = next((before for before, later in pairwise(attempts[place:]) if later.evaluation.passed), None)
        mistake = Mistake(
            mistake_id=f"mistake-{session_id or task.loop_id}-{_digest(prompt_hash, kind)}",
            task_id=task.task_id,
            prompt=task.prompt,
            prompt_hash=prompt_hash,
            mistake=_description(attempt),
            correction=before.reflection.what_to_change if before and before.reflection else "",
            severity=min(max(1 - evaluation.reward, 0.0), 1.0),
            timestamp=now,
        )
        mistakes.setdefault(mistake.mistake_id, mistake)
    return list(mistakes.values())


def _description(attempt: Attempt) -> str:
    """The first failure with its values, its check, and the critic's first issue with the submitted program."""
    critiques = [step.critique for step in attempt.trajectory.steps if step.critique]
    issues = [f"Issue: {issue[:CHECK_CHARS]}" for issue in (critiques[-1].issues[:1] if critiques else ())]
    failure = next(iter(attempt.evaluation.failures), None)
    if failure is None:
        return "\n".join([attempt.evaluation.outcome, *issues])
    values = f"got {failure.actual}, expected {failure.expected}" if failure.expected else failure.message
    words = " ".join(filter(None, (failure.error_type or failure.outcome, values[:CHECK_CHARS])))
    return "\n".join([words, *_failing_check(attempt.evaluation), *issues])


def _failing_check(evaluation: Evaluation) -> list[str]:
    return [f"Failing check: {failure.name[:CHECK_CHARS]}" for failure in evaluation.failures[:1]]


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
