"""Recall policies: the episodes in the actor's prompt, of the same task and of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from msgspec.structs import replace

from reflexion_lab.limits import Count, Share, validated
from reflexion_lab.protocols import Outcome, SharedMemory
from reflexion_lab.records import Episode, Recollection, Task
from reflexion_lab.text.prompts.render import program, shortened
from reflexion_lab.text.shorten import cut, estimated, filled, line

DEFAULT, MIN_OMEGA, MAX_OMEGA = 3, 1, 10
BY_COMPLEXITY = {"simple": 1, "moderate": 3, "complex": 5, "maximum": 10, "easy": 1, "medium": 3, "hard": 5}
"""Ω by task tag; the last three tags are those of `benchmark=basics`."""
SHORT, LONG = 45, 72
"""Tertiles of HumanEval's prompt lengths in words. First attempts of five published systems (23 per task) solve 86, 77
and 73 % of the thirds; Spearman's rho of length and solve rate is -0.31 (n = 164 tasks, p < 0.0001).
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


def omega_for(omega: int | str, own: Sequence[Episode], task: Task, adapted_so_far: int = DEFAULT) -> int:
    """Ω for the task with the episodes `own` so far.

    `adapted_so_far`: the adaptive Ω at the start of the loop.
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
    """Ω by the task's tag; without one, as in HumanEval, prompts up to 45 words are simple, above 72 complex."""
    for tag in task.tags:
        if tag in BY_COMPLEXITY:
            return BY_COMPLEXITY[tag]
    words = len(task.prompt.split())
    return BY_COMPLEXITY["simple" if words <= SHORT else "moderate" if words <= LONG else "complex"]


def by_verification_type(own: Sequence[Episode]) -> int:
    """Ω by the last verdict's type: unit tests fail for clear reasons, reviews need more history."""
    kind = own[-1].metadata.get("verification_type", "") if own else ""
    return BY_VERIFICATION_TYPE.get(kind, DEFAULT)


def dynamic(own: Sequence[Episode]) -> int:
    """Ω by distinct failure categories: 5 for five or more, 3 for three or four, else 1."""
    kinds = len({episode.category for episode in own if episode.category})
    return 5 if kinds >= 5 else 3 if kinds >= 3 else 1


def adapted(omega: int, episodes: Sequence[Episode]) -> int:
    """Ω after a loop: +1 for each failure that is at least the third in a row or has a reward below 0.5; -1 for a
    success at the first or second attempt. Unknown verdicts are skipped. Clipped to 1..10.
    """
    in_a_row = 0
    for episode in episodes:
        if not episode.has_verdict:
            continue
        in_a_row = 0 if episode.passed else in_a_row + 1
        harder = not episode.passed and (in_a_row >= 3 or episode.reward < 0.5)
        easy = episode.passed and episode.attempt_number <= 2
        omega = max(MIN_OMEGA, min(MAX_OMEGA, omega + harder - easy))
    return omega


class Window:
    """The newest Ω episodes of the task at hand.

    `omega`: Ω, 0 or more, or the name of a rule. `max_tokens`: budget in estimated tokens. The newest episode is
    shortened to it; older ones that do not fit are listed in `Recollection.left_out`. None: limited only by the model's
    context (`Prompts.fit`).
    """

    reads_other_tasks = False

    @validated
    def __init__(self, omega: Omega = DEFAULT, max_tokens: Count | None = None) -> None:
        self.omega = omega
        self.max_tokens = max_tokens

    def select(self, own: Sequence[Episode], task: Task, shared: SharedMemory) -> Recollection:
        size = omega_for(self.omega, own, task, shared.omega)
        newest = own[len(own) - min(size, len(own)) :]
        fit = window(newest, self.max_tokens)
        return Recollection(own=tuple(fit), omega=size, left_out=left_out(newest, fit))


class Similar:
    """The `k` nearest episodes of other loops, the nearest last.

    `min_score`: minimum retriever score, inclusive. `max_tokens`: as in `Window`. `outcome`: of the recalled attempts;
    `passed`: successes only.
    """

    @validated
    def __init__(
        self, k: Count = 3, min_score: Share = 0.25, max_tokens: Count | None = None, outcome: Outcome = "any"
    ) -> None:
        self.k = k
        self.min_score = min_score
        self.max_tokens = max_tokens
        self.outcome = outcome

    def select(self, own: Sequence[Episode], task: Task, shared: SharedMemory) -> Recollection:
        nearest_last = shared.similar(task, own, self.k, self.min_score, self.outcome)[::-1]
        fit = packed(nearest_last, self.max_tokens, foreign_words)
        return Recollection(others=tuple(fit), left_out=left_out(nearest_last, fit))


class WindowThenSimilar:
    """The episodes of `Similar`, then those of `Window`; `max_tokens` limits each."""

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

    def select(self, own: Sequence[Episode], task: Task, shared: SharedMemory) -> Recollection:
        newest, others = (part.select(own, task, shared) for part in (self.window, self.similar))
        return replace(newest, others=others.others, left_out=tuple(sorted({*others.left_out, *newest.left_out})))


def left_out(selected: Sequence[Episode], packed: Sequence[Episode]) -> tuple[str, ...]:
    """Ids of the selected episodes without the packed ones."""
    return tuple(sorted({each.episode_id for each in selected} - {each.episode_id for each in packed}))


def words(episode: Episode) -> str:
    """The longest text of an episode in a prompt, for an episode of the same task."""
    statements = (f"{label}: {line(text, 300)}" for label, text in episode.statements)
    return "".join((program(episode, 1500), cut(episode.test_results, 900), *statements, episode.quoted_code))


def foreign_words(episode: Episode) -> str:
    """As `words`, for an episode of another task, whose description is included."""
    return episode.task_description.strip()[:600] + words(episode)


def window(episodes: Sequence[Episode], budget: int | None) -> list[Episode]:
    """The task's `episodes` that fit into `budget` tokens, in their order; None: all.

    Packed from the newest, which is shortened if necessary; older ones that do not fit are skipped.
    """
    if budget is None or not episodes:
        return list(episodes)
    newest = shortened(episodes[-1], lambda episode: estimated(words(episode)) <= budget)
    return packed([*episodes[:-1], newest] if newest else episodes[:-1], budget)


def packed(episodes: Sequence[Episode], budget: int | None, text: Callable[[Episode], str] = words) -> list[Episode]:
    """The `episodes` that fit into `budget` tokens, packed from the last, in their order; None: all."""
    return list(episodes) if budget is None else fitting(episodes[::-1], text, budget)[0][::-1]


def fitting(entries: Sequence[T], text: Callable[[T], str], budget: float) -> tuple[list[T], float]:
    """The `entries` that fit into `budget` tokens, packed from the first, and the remaining budget."""
    sizes = [estimated(text(entry)) for entry in entries]
    numbers = filled(sizes, budget)
    return [entries[number] for number in numbers], budget - sum(sizes[number] for number in numbers)
