"""Recall policies: which episodes the actor reads, the task's own and those of other tasks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from reflexion_lab.limits import Count, Share, validated
from reflexion_lab.memory.omega import DEFAULT, Omega, capacity
from reflexion_lab.memory.packing import Tokens, foreign_words, packed, window
from reflexion_lab.protocols import Known
from reflexion_lab.records import Episode, Recollection, Task
from reflexion_lab.text.prompts.length import estimated


class Window:
    """The newest Ω episodes of the task at hand.

    `omega`: an int ≥ 0 (0 shows nothing) or the name of a rule. `max_tokens`: what the shown episodes may fill; the
    newest is shortened to it, older ones that do not fit are named in `Recollection.left_out`.
    """

    reads_other_tasks = False

    @validated
    def __init__(self, omega: Omega = DEFAULT, max_tokens: Count = 1000, tokens: Tokens = estimated) -> None:
        self.omega = omega
        self.max_tokens = max_tokens
        self.tokens = tokens

    def select(self, own: Sequence[Episode], task: Task, known: Known) -> Recollection:
        size = capacity(self.omega, own, task, known.omega)
        newest = own[len(own) - min(size, len(own)) :]
        return _recollection(newest, window(newest, self.max_tokens, self.tokens), size)


class Similar:
    """The `k` episodes of other loops that come nearest to the task, the nearest last.

    `min_score`: least score, inclusive; scores are those of the retriever. `max_tokens`: what they may fill.
    """

    @validated
    def __init__(
        self, k: Count = 3, min_score: Share = 0.25, max_tokens: Count = 1000, tokens: Tokens = estimated
    ) -> None:
        self.k = k
        self.min_score = min_score
        self.max_tokens = max_tokens
        self.tokens = tokens

    def select(self, own: Sequence[Episode], task: Task, known: Known) -> Recollection:
        nearest_last = known.similar(task, own, self.k, self.min_score)[::-1]
        return _recollection(nearest_last, packed(nearest_last, self.max_tokens, self.tokens, foreign_words))


class WindowThenSimilar:
    """The episodes of `Similar`, then those of `Window`; `max_tokens` bounds each of the two."""

    @validated
    def __init__(
        self,
        omega: Omega = DEFAULT,
        k: Count = 3,
        min_score: Share = 0.25,
        max_tokens: Count = 1000,
        tokens: Tokens = estimated,
    ) -> None:
        self.window = Window(omega, max_tokens, tokens)
        self.similar = Similar(k, min_score, max_tokens, tokens)

    def select(self, own: Sequence[Episode], task: Task, known: Known) -> Recollection:
        newest, others = (part.select(own, task, known) for part in (self.window, self.similar))
        left_out = tuple(sorted({*others.left_out, *newest.left_out}))
        return replace(newest, episodes=(*others.episodes, *newest.episodes), left_out=left_out)


def _recollection(selected: Sequence[Episode], packed: Sequence[Episode], omega: int | None = None) -> Recollection:
    recollection = Recollection(episodes=tuple(packed), omega=omega)
    return replace(recollection, left_out=tuple(sorted(Recollection(episodes=tuple(selected)).ids - recollection.ids)))
