"""Similarity of recalled items of other tasks to an attempt's task, and the success of the attempt.

Runs do not record retrieval scores. Here they are computed for any retriever as Jaccard similarities of the texts that
the run's config compares; with `retriever=jaccard` they equal the scores of the run.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import NamedTuple

from reflexion_lab.analysis.arms import Arm, Case
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.clusters import ALONE, Clusters, by_cluster
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import UNKNOWN, Attempt, Record
from reflexion_lab.text.prompts.render import known_examples
from reflexion_lab.text.replies.tokens import tokens

MOST, MIN_TASKS = 5, 12
"""Maximum number of bins, and minimum number of attempts per bin."""
MATCH = "task_error"
"""Texts that older runs compared."""

More = Callable[[Attempt, str], str]
"""Text of an attempt that is compared besides that of its task, by the run's `memory.shared.match`."""


class Near(NamedTuple):
    """An attempt that read an item of another task."""

    case: Case
    number: int
    score: float
    """Similarity of the nearest item, in [0, 1]."""
    passed: bool
    """Hidden verdict."""
    feedback: bool
    """Feedback verdict."""


class Similarity(Record, frozen=True, kw_only=True):
    """Attempts of an arm by the similarity of the items that they read."""

    arm: str
    feedback_source: str
    is_upper_bound: bool
    near: tuple[Near, ...]
    without: tuple[tuple[Case, int, bool], ...]
    """Attempts that read no item of other tasks: case, number, hidden verdict."""
    unknown: int
    """Excluded attempts: their items are not in these runs (only wisdom, or items of earlier runs), a text was not
    found, or there is no hidden verdict."""


class Bin(Record, frozen=True, kw_only=True):
    """Attempts with similar scores. The interval is clustered by `Arm.clusters`."""

    score: float
    """Mean score."""
    k: int
    n: int
    passed: Estimate


def similarity(arm: Arm, more: More, is_later: bool = False) -> Similarity:
    """Similarity at the first attempts of an arm, or (`is_later`) at all later ones."""
    known = {
        f"{log.manifest.run_id}/{attempt.task_id}-{attempt.number}": (log, attempt)
        for log in arm.logs
        for attempt in log.every
    }
    near: list[Near] = []
    without: list[tuple[Case, int, bool]] = []
    unknown = 0
    for log in arm.logs:
        scorer = _Scorer(log, known, more)
        for task_id, attempts in log.attempts.items():
            for before, attempt in zip((None, *attempts), attempts, strict=False):
                grade, case = log.grades[task_id, attempt.number], Case(log.manifest.seed, task_id)
                if bool(before) is not is_later:
                    continue
                scores = scorer.scores(before, attempt)
                if grade.outcome in UNKNOWN or None in scores:
                    unknown += 1
                elif known_scores := [score for score in scores if score is not None]:
                    near.append(Near(case, attempt.number, max(known_scores), grade.passed, attempt.evaluation.passed))
                else:
                    without.append((case, attempt.number, grade.passed))
    return Similarity(
        arm=arm.label,
        feedback_source=arm.feedback_source,
        is_upper_bound=arm.is_upper_bound,
        near=tuple(near),
        without=tuple(without),
        unknown=unknown,
    )


def edges(scores: Sequence[float]) -> list[float]:
    """Edges of bins with about equal counts: quantiles of the scores, ascending.

    Equal scores share a bin, so there may be fewer bins than `MOST`. If the lowest score is a quantile, the first bin
    contains that score alone.

    Raises
    ------
    ConfigError
        There is no score.
    """
    if not scores:
        raise ConfigError("scores", "none", "at least one")
    ordered = sorted(scores)
    wanted = max(1, min(MOST, len(ordered) // MIN_TASKS))
    ends = [ordered[len(ordered) * part // wanted - 1] for part in range(1, wanted + 1)]
    return [ordered[0], *dict.fromkeys(ends)]


def bins(near: Sequence[Near], ends: Sequence[float], seed: int = 0, clusters: Clusters = ALONE) -> dict[int, Bin]:
    """Bins between the edges `ends` by index, without empty ones; a score on an edge is in the lower bin."""
    parts: dict[int, list[Near]] = {}
    for entry in near:
        parts.setdefault(max(0, bisect_left(ends, entry.score, 1, len(ends) - 1) - 1), []).append(entry)
    return {place: _bin(part, seed, clusters) for place, part in sorted(parts.items())}


def jaccard(text: str, other_text: str) -> float:
    """Shared distinct words of two texts over all distinct words, in [0, 1] (Jaccard 1912); 0 without words."""
    first, second = set(tokens(text)), set(tokens(other_text))
    return len(first & second) / len(first | second) if first | second else 0.0


class _Scorer:
    """Similarities of the items of other tasks that the attempts of a run read."""

    def __init__(self, log: Log, known: dict[str, tuple[Log, Attempt]], more: More) -> None:
        self.run_id = log.manifest.run_id
        self.known = known
        self.more = more
        self.match = _match(log)
        self.log = log
        self._texts: dict[tuple[str, str], str] = {}

    def scores(self, before: Attempt | None, attempt: Attempt) -> list[float | None]:
        """Scores of the episodes and mistakes of other tasks that were read; None if unknown, or for wisdom alone."""
        unread, own = set(attempt.trajectory.left_out), self._text(self.log, attempt.task_id)
        query = f"{own}\n{self.more(before, self.match)}" if before else own
        episodes = [name for name in attempt.recalled if name not in unread and not self._is_own(name, attempt)]
        mistakes = [name for name in attempt.recalled_mistakes if name not in unread]
        pairs = [(query, self._episode(name)) for name in episodes] + [(own, self._mistake(name)) for name in mistakes]
        if not pairs and set(attempt.recalled_wisdom) - unread:
            return [None]
        return [jaccard(text, recalled) if own and recalled else None for text, recalled in pairs]

    def _is_own(self, name: str, attempt: Attempt) -> bool:
        return name.removeprefix("ep-").removeprefix(f"{self.run_id}/").rpartition("-")[0] == attempt.task_id

    def _episode(self, name: str) -> str:
        log, source = self.known.get(name.removeprefix("ep-"), (self.log, None))
        text = self._text(log, source.task_id) if source else ""
        return f"{text}\n{self.more(source, self.match)}" if source and text else ""

    def _mistake(self, name: str) -> str:
        run, _, rest = name.removeprefix("mistake-").partition("/")
        task_id = rest.rpartition("-")[0]
        return self._text(self.log, task_id) if run == self.run_id and task_id in self.log.attempts else ""

    def _text(self, log: Log, task_id: str) -> str:
        key = log.manifest.run_id, task_id
        if key not in self._texts:
            self._texts[key] = task_text(log.attempts[task_id])
        return self._texts[key]


def _match(log: Log) -> str:
    value: object = log.manifest.config
    for key in ("memory", "shared", "match"):
        value = value.get(key) if isinstance(value, dict) else None
    return str(value or MATCH)


def _bin(part: Sequence[Near], seed: int, clusters: Clusters) -> Bin:
    return Bin(
        score=fmean(entry.score for entry in part),
        k=sum(entry.passed for entry in part),
        n=len(part),
        passed=interval(by_cluster(((entry.case.task_id, entry.passed) for entry in part), clusters), seed),
    )


_BLOCK = re.compile(r"^(`{3,})python\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
_DEFINED = re.compile(r"^(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)


def task_text(attempts: Sequence[Attempt]) -> str:
    """The task's prompt, extracted from the messages of its first attempt; "" if it cannot be identified.

    For an actor that continues a file it is the end of the last message, with which the programs begin. In a chat it is
    the first Python block that is not a few-shot example and defines a function of the task's programs.

    Parameters
    ----------
    attempts : Sequence[Attempt]
        Attempts at one task, in order.
    """
    messages = attempts[0].trajectory.messages
    if messages and messages[-1].role == "assistant":
        return _longest_prefix(messages[-1].content, attempts)
    names = {name for attempt in attempts for name in _DEFINED.findall(attempt.trajectory.solution)}
    examples = {text.strip() for example in known_examples() for text in (example.prompt, example.wrong, example.right)}
    fenced = (block for message in messages for _, block in _BLOCK.findall(message.content))
    blocks = (block for block in fenced if block.strip() not in examples)
    return next((block for block in blocks if names.intersection(_DEFINED.findall(block))), "")


def _longest_prefix(content: str, attempts: Sequence[Attempt]) -> str:
    """The longest prefix of a program at the end of `content`, ignoring comments after it."""
    for program in (attempt.trajectory.solution for attempt in attempts):
        size = bisect_left(range(1, len(program) + 1), True, key=lambda chars: program[:chars] not in content)
        start = program[:size]
        if not _DEFINED.search(start):
            continue
        _, _, rest = content.rpartition(start)
        if all(line.lstrip().startswith("#") for line in rest.split("\n") if line.strip()):
            return start
    return ""
