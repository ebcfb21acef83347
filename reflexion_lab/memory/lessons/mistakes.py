"""Mistakes: failures on earlier tasks with their corrections."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise

from msgspec.structs import replace

from reflexion_lab.limits import Positive, Share, validated
from reflexion_lab.memory.lessons.lessons import Lessons
from reflexion_lab.memory.retrieval.documents import Documents
from reflexion_lab.memory.retrieval.trace import note_search
from reflexion_lab.protocols import Retriever, Stored
from reflexion_lab.records import Episode, Mistake, Task

CHECK_CHARS = 200
"""Maximum characters of a quoted check, and of an issue."""


class Mistakes(Lessons[Mistake]):
    """The newest mistakes, retrieved by similar prompts.

    `retriever`: empty, for this memory alone. `max_entries`: capacity; the oldest mistake is evicted. `threshold`:
    minimum score of a retrieved mistake, in [0, 1], inclusive.
    """

    name = "mistakes"

    @validated
    def __init__(self, retriever: Retriever, max_entries: Positive = 1000, threshold: Share = 0.25) -> None:
        self.max_entries = max_entries
        self.threshold = threshold
        self._documents: Documents[str] = Documents(retriever)
        self._entries: dict[str, Mistake] = {}
        """By id, in order of arrival."""

    def __len__(self) -> int:
        return len(self._entries)

    def learn(self, loops: Sequence[Sequence[Episode]]) -> list[Stored]:
        self.extend(mistake for loop in loops for mistake in mistakes_of(loop))
        return []

    def extend(self, mistakes: Iterable[Mistake]) -> None:
        """Add mistakes, oldest first. A known id is replaced in place, and keeps its correction if the new one has
        none. Those without a prompt are left out: none is similar to it.
        """
        new: dict[str, str] = {}
        for entry in mistakes:
            if entry.prompt.strip():
                older = self._entries.get(entry.mistake_id, entry)
                self._entries[entry.mistake_id] = replace(entry, correction=entry.correction or older.correction)
                new[entry.mistake_id] = entry.prompt
        gone = [*islice(self._entries, max(0, len(self._entries) - self.max_entries))]
        for name in gone:
            del self._entries[name]
        self._documents.remove(self._documents.texts.keys() & gone)
        self._documents.put({name: prompt for name, prompt in new.items() if name in self._entries})

    def select(self, task: Task, own: Sequence[Episode], limit: int, except_task: str) -> Sequence[Mistake]:
        return self.retrieve_similar(task.prompt, limit, except_task=except_task)

    def text(self, entry: Mistake) -> str:
        return entry.prompt.strip()[:600] + entry.mistake[:300] + entry.correction[:300]

    def retrieve_similar(self, prompt: str, k: int = 3, *, except_task: str = "") -> list[Mistake]:
        """At most `k` mistakes with the most similar prompts, best first, the newer first on a tie.

        Mistakes of the task with id `except_task` are excluded; "" excludes none.
        """
        own = sum(mistake.task_id == except_task for mistake in self._entries.values()) if except_task else 0
        scores = self._documents.rank(prompt, k + own if k > 0 else 0)
        near = {name: self._entries[name] for name, score in scores.items() if score >= self.threshold}
        note_search(self._documents.retriever, prompt, scores, near)
        others = (mistake for mistake in near.values() if not except_task or mistake.task_id != except_task)
        return list(islice(others, max(k, 0)))


def mistakes_of(loop: Sequence[Episode]) -> list[Mistake]:
    """Distinct mistakes of one loop, oldest first as its episodes; those without a verdict are skipped.

    The correction is `what_to_change` of the last reflection before an attempt passed.
    """
    mistakes: dict[str, Mistake] = {}
    for place, episode in enumerate(loop):
        outcome = episode.metadata.get("outcome") or "fail"
        if episode.passed or not episode.has_verdict:
            continue
        prompt_hash = _digest(episode.task_description)
        kind = "\n".join([episode.failure_analysis or outcome, *_failing_check(episode)])
        before = next((before for before, later in pairwise(loop[place:]) if later.passed), None)
        mistake = Mistake(
            mistake_id=f"mistake-{episode.session_id}-{_digest(prompt_hash, kind)}",
            task_id=episode.task_id,
            prompt=episode.task_description,
            prompt_hash=prompt_hash,
            mistake=_description(episode, outcome),
            correction=before.improvement if before else "",
            severity=min(max(1 - episode.reward, 0.0), 1.0),
            timestamp=episode.timestamp,
        )
        mistakes.setdefault(mistake.mistake_id, mistake)
    return list(mistakes.values())


def _description(episode: Episode, outcome: str) -> str:
    """The first failure with its values, its check, and the critic's first issue with the submitted program."""
    issues = [f"Issue: {issue}" for issue in [episode.metadata.get("issue")] if issue]
    failure = next(iter(episode.results.failing), None)
    if failure is None:
        return "\n".join([outcome, *issues])
    values = f"got {failure.actual}, expected {failure.expected}" if failure.expected else failure.message
    words = " ".join(filter(None, (failure.error_type or failure.outcome, values[:CHECK_CHARS])))
    return "\n".join([words, *_failing_check(episode), *issues])


def _failing_check(episode: Episode) -> list[str]:
    return [f"Failing check: {check.name[:CHECK_CHARS]}" for check in episode.results.failing[:1]]


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
