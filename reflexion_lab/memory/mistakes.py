"""Mistakes: failures on earlier tasks and the changes that corrected them."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec.structs import replace

from reflexion_lab.limits import Positive, Share, validated
from reflexion_lab.memory.texts import signature
from reflexion_lab.protocols import Retriever
from reflexion_lab.records import UNKNOWN, Attempt, Evaluation, Mistake, Task

CHECK_CHARS = 200
"""Characters of the failing check that a mistake quotes."""


class Mistakes:
    """The newest mistakes, retrieved by the similarity of their prompts. Thread-safe.

    It lives in memory; a `Store` carries it from run to run: `mistakes.extend(store.read(Mistake))`, and
    `store.append(mistakes.extend(new))`.

    Parameters
    ----------
    retriever
        Compares prompts; an empty one, for this memory alone.
    max_entries
        Capacity, 1 or more; the oldest entry leaves first.
    threshold
        Smallest score of a retrieved mistake, in [0, 1].

    Raises
    ------
    ConfigError
        A number is out of its range.
    """

    @validated
    def __init__(self, retriever: Retriever, max_entries: Positive = 1000, threshold: Share = 0.25) -> None:
        self.max_entries = max_entries
        self.threshold = threshold
        self._retriever = retriever
        self._lock = threading.Lock()
        # Numbered as the retriever numbers their prompts; the kept ones are in the order of their first coming.
        self._kept: dict[int, Mistake] = {}
        self._numbers: dict[str, int] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._kept)

    def extend(self, mistakes: Iterable[Mistake]) -> list[Mistake]:
        """Keep mistakes, oldest first, and return them as they are kept.

        One whose id is known replaces the older one in its place, where it is still found by the older prompt; no
        correction never replaces one.
        """
        entries = list(mistakes)
        with self._lock:
            new = {entry.mistake_id: entry.prompt for entry in entries if entry.mistake_id not in self._numbers}
            self._retriever.add(list(new.values()))
            for mistake_id in new:
                self._numbers[mistake_id] = self._next
                self._next += 1
            stored = [self._keep(entry) for entry in entries]
            self._evict()
        return stored

    def retrieve_similar(self, prompt: str, k: int = 3, *, except_task: str = "") -> list[Mistake]:
        """At most `k` mistakes whose prompts are nearest to `prompt`, best first, the newer first on a tie.

        `except_task`: the id of a task whose own mistakes are left out; "" leaves out none.
        """
        if k <= 0:
            return []
        with self._lock:
            own = sum(mistake.task_id == except_task for mistake in self._kept.values()) if except_task else 0
            hits = self._retriever.rank(prompt, k + own)
            near = [self._kept[hit.number] for hit in hits if hit.score >= self.threshold]
        return [mistake for mistake in near if not except_task or mistake.task_id != except_task][:k]

    def _keep(self, mistake: Mistake) -> Mistake:
        number = self._numbers[mistake.mistake_id]
        older = self._kept.get(number, mistake)
        self._kept[number] = replace(mistake, correction=mistake.correction or older.correction)
        return self._kept[number]

    def _evict(self) -> None:
        while len(self._kept) > self.max_entries:
            oldest = self._kept.pop(self._next - len(self._kept))
            del self._numbers[oldest.mistake_id]
        self._retriever.forget(self._next - len(self._kept))


def mistakes_of(
    task: Task, attempts: Sequence[Attempt], timestamp: float | None = None, session_id: str = ""
) -> list[Mistake]:
    """The mistakes of one task's attempts, oldest first, each once in a session; an unknown verdict is none.

    A correction is the change that the reflection proposed just before an attempt passed.

    Parameters
    ----------
    attempts
        Oldest first.
    timestamp
        Seconds since the epoch; None for now.
    """
    now = time.time() if timestamp is None else timestamp
    prompt_hash = _digest(task.prompt)
    mistakes: dict[str, Mistake] = {}
    for place, attempt in enumerate(attempts):
        evaluation = attempt.evaluation
        if evaluation.passed or evaluation.outcome in UNKNOWN:
            continue
        kind = "\n".join([signature(evaluation) or evaluation.outcome, *_failing_check(evaluation)])
        mistake = Mistake(
            mistake_id=f"mistake-{session_id or task.task_id}-{_digest(prompt_hash, kind)}",
            task_id=task.task_id,
            prompt=task.prompt,
            prompt_hash=prompt_hash,
            mistake=_in_words(attempt),
            correction=_correction(attempts[place:]),
            severity=min(max(1 - evaluation.reward, 0.0), 1.0),
            timestamp=now,
        )
        mistakes.setdefault(mistake.mistake_id, mistake)
    return list(mistakes.values())


def _in_words(attempt: Attempt) -> str:
    """What the critic said of the submitted program, and the first failure with its values."""
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


def _correction(attempts: Sequence[Attempt]) -> str:
    for before, attempt in pairwise(attempts):
        if attempt.evaluation.passed:
            return before.reflection.what_to_change if before.reflection else ""
    return ""


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
