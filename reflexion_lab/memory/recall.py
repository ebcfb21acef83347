"""Recall policies: which episodes the actor reads, the task's own and those of other tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from msgspec.structs import replace

from reflexion_lab.limits import Count, Share, validated
from reflexion_lab.protocols import Known, Outcome
from reflexion_lab.records import UNKNOWN, Episode, Recollection, Task
from reflexion_lab.text.prompts.render import program, shortened
from reflexion_lab.text.shorten import cut, estimated, line

DEFAULT, LEAST, MOST = 3, 1, 10
BY_COMPLEXITY = {"simple": 1, "moderate": 3, "complex": 5, "maximum": 10, "easy": 1, "medium": 3, "hard": 5}
"""By tag of the task; the last three are those of `benchmark=basics`."""
SHORT, LONG = 45, 72
"""Words of a prompt: the thirds of HumanEval's. First attempts of five published systems (23 a task) solve 86, 77 and
73 % of them; Spearman's rho of words and solve rate is -0.31 (n = 164 tasks, p < 0.0001).
"""
BY_VERIFICATION_TYPE = {
    "unit_tests": 1,
    "type_check": 1,
    "lint": 1,
    "integration": 3,
    "combined": 3,
    "manual_review": 5,
}
Rule = Literal[
    "all", "by_complexity", "by_verification_type", "dynamic", "adaptive", "simple", "moderate", "complex", "maximum"
]
Omega = Count | Rule
T = TypeVar("T")


def capacity(omega: int | str, own: Sequence[Episode], task: Task, adapted_so_far: int = DEFAULT) -> int:
    """How many of `own`, the task's episodes so far, are shown; `all` means as many as there are.

    `adapted_so_far`: where `adaptive` stood when the loop began.
    """
    if isinstance(omega, int):
        return omega
    rules = {
        "all": lambda: len(own),
        "by_complexity": lambda: by_complexity(task),
        "by_verification_type": lambda: by_verification_type(own),
        "dynamic": lambda: dynamic(own),
        "adaptive": lambda: adapted(adapted_so_far, own),
    }
    return rules[omega]() if omega in rules else BY_COMPLEXITY[omega]


def by_complexity(task: Task) -> int:
    """By the task's tag; a task without one, as in HumanEval, is simple up to 45 words of prompt, complex above 72."""
    for tag in task.tags:
        if tag in BY_COMPLEXITY:
            return BY_COMPLEXITY[tag]
    words = len(task.prompt.split())
    return BY_COMPLEXITY["simple" if words <= SHORT else "moderate" if words <= LONG else "complex"]


def by_verification_type(own: Sequence[Episode]) -> int:
    """Unit tests fail for clear reasons; what several tools or people say needs more history."""
    kind = own[-1].metadata.get("verification_type", "") if own else ""
    return BY_VERIFICATION_TYPE.get(kind, DEFAULT)


def dynamic(own: Sequence[Episode]) -> int:
    """The more kinds of failure, the wider: 5 distinct categories show 5, 3 show 3, fewer 1."""
    kinds = len({episode.category for episode in own if episode.category})
    return 5 if kinds >= 5 else 3 if kinds >= 3 else 1


def adapted(omega: int, episodes: Sequence[Episode]) -> int:
    """Ω after one loop's `episodes`: one more for each failure that is the third in a row or later, or whose reward is
    below 0.5; one less for a success at the first or second attempt. An unknown verdict changes nothing. Kept in 1..10.
    """
    in_a_row = 0
    for episode in episodes:
        if episode.metadata.get("outcome") in UNKNOWN:
            continue
        in_a_row = 0 if episode.passed else in_a_row + 1
        harder = not episode.passed and (in_a_row >= 3 or episode.reward < 0.5)
        easy = episode.passed and episode.attempt_number <= 2
        omega = max(LEAST, min(MOST, omega + harder - easy))
    return omega


class Window:
    """The newest Ω episodes of the task at hand.

    Parameters
    ----------
    omega : int or str
        Ω, 0 or more (0 shows nothing), or the name of a rule. Default 3.
    max_tokens : int or None
        Most tokens, by estimate, that the shown episodes fill: the newest is shortened to it, older ones that do not
        fit are named in `Recollection.left_out`. Default None: what the model's context leaves (`Prompts.fit`).
    """

    reads_other_tasks = False

    @validated
    def __init__(self, omega: Omega = DEFAULT, max_tokens: Count | None = None) -> None:
        self.omega = omega
        self.max_tokens = max_tokens

    def select(self, own: Sequence[Episode], task: Task, known: Known) -> Recollection:
        size = capacity(self.omega, own, task, known.omega)
        newest = own[len(own) - min(size, len(own)) :]
        return _recollection(newest, window(newest, self.max_tokens), size)


class Similar:
    """The `k` episodes of other loops that come nearest to the task, the nearest last.

    `min_score`: least score, inclusive; scores are those of the retriever. `max_tokens`: as of `Window`. `outcome`: of
    the attempts that are shown; `passed` shows successes alone.
    """

    @validated
    def __init__(
        self, k: Count = 3, min_score: Share = 0.25, max_tokens: Count | None = None, outcome: Outcome = "any"
    ) -> None:
        self.k = k
        self.min_score = min_score
        self.max_tokens = max_tokens
        self.outcome = outcome

    def select(self, own: Sequence[Episode], task: Task, known: Known) -> Recollection:
        nearest_last = known.similar(task, own, self.k, self.min_score, self.outcome)[::-1]
        return _recollection(nearest_last, packed(nearest_last, self.max_tokens, foreign_words))


class WindowThenSimilar:
    """The episodes of `Similar`, then those of `Window`; `max_tokens` bounds each of the two."""

    @validated
    def __init__(
        self,
        omega: Omega = DEFAULT,
        k: Count = 3,
        min_score: Share = 0.25,
        max_tokens: Count | None = None,
        outcome: Outcome = "any",
    ) -> None:
        self.window = Window(omega, max_tokens)
        self.similar = Similar(k, min_score, max_tokens, outcome)

    def select(self, own: Sequence[Episode], task: Task, known: Known) -> Recollection:
        newest, others = (part.select(own, task, known) for part in (self.window, self.similar))
        left_out = tuple(sorted({*others.left_out, *newest.left_out}))
        return replace(newest, episodes=(*others.episodes, *newest.episodes), left_out=left_out)


def _recollection(selected: Sequence[Episode], packed: Sequence[Episode], omega: int | None = None) -> Recollection:
    recollection = Recollection(episodes=tuple(packed), omega=omega)
    return replace(recollection, left_out=tuple(sorted(Recollection(episodes=tuple(selected)).ids - recollection.ids)))


def words(episode: Episode) -> str:
    """The longest text that a prompt has of an episode of the same task."""
    statements = (f"{label}: {line(text, 300)}" for label, text in episode.statements)
    return "".join((program(episode, 1500), cut(episode.test_results, 900), *statements, episode.quoted_code))


def foreign_words(episode: Episode) -> str:
    """The longest text that a prompt has of an episode of another task: with that task."""
    return episode.task_description.strip()[:600] + words(episode)


def window(episodes: Sequence[Episode], budget: int | None) -> list[Episode]:
    """Those of a task's own `episodes` that fit into `budget` tokens, in their order; None: all of them.

    The newest comes first, shortened where it is too long; older ones that do not fit are skipped.
    """
    if budget is None or not episodes:
        return list(episodes)
    newest = shortened(episodes[-1], lambda episode: estimated(words(episode)) <= budget)
    return packed([*episodes[:-1], newest] if newest else episodes[:-1], budget)


def packed(episodes: Sequence[Episode], budget: int | None, text: Callable[[Episode], str] = words) -> list[Episode]:
    """Those of `episodes` that fit into `budget` tokens, in their order; None: all of them.

    The last ones are packed first, and one that does not fit is skipped.
    """
    return list(episodes) if budget is None else fitting(episodes[::-1], text, budget)[0][::-1]


def fitting(entries: Sequence[T], text: Callable[[T], str], budget: int) -> tuple[list[T], int]:
    """Those of `entries`, from the first on, whose texts fit into `budget` tokens; and what is left of it."""
    chosen = []
    for entry in entries:
        if (size := estimated(text(entry))) <= budget:
            chosen.append(entry)
            budget -= size
    return chosen, budget


def lessons_within(lessons: Recollection, budget: int) -> Recollection:
    """Of its wisdom, insights and mistakes those that fit into `budget` tokens together, as a prompt shows them: first
    the best wisdom, then the newest insights, then the nearest mistakes, which are the longest.
    """
    wisdom, budget = fitting(lessons.wisdom, lambda w: w.pattern[:300] + w.advice[:300], budget)
    insights, budget = fitting(lessons.insights[::-1], lambda insight: insight[:300], budget)
    mistakes, _ = fitting(
        lessons.mistakes, lambda m: m.prompt.strip()[:600] + m.mistake[:300] + m.correction[:300], budget
    )
    kept = replace(lessons, wisdom=tuple(wisdom), insights=tuple(insights[::-1]), mistakes=tuple(mistakes))
    return replace(kept, left_out=tuple(sorted(lessons.ids - kept.ids)))
