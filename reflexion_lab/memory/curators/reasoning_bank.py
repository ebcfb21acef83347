"""ReasoningBank with MaTTS (Ouyang et al., arXiv 2509.25140; google-research/reasoning-bank@ed80611): strategies from
successes and failures.

Paper: after each task, at most 3 items (title, description, content) are drawn from its trajectory, with one prompt for
successes and another for failures, and appended; nothing is merged, removed or counted. The prompt shows all items of
the one past task whose text is the most similar. MaTTS: all attempts at a task make one call for at most 5 items, which
contrasts independent attempts (`parallel`) or follows one that is examined again and again (`sequential`). Released
(`variant: released`), as read at 1f334c1: a reply is cut into items at blank lines, whatever they contain and however
many (`induce_memory.py` for SWE-bench; that for WebArena stores it whole); and success is inverted (`if reward == 0:
status = "success"`, in both), so that successes get the prompt of failures. `induce_scaling.py` inverts it, too, but
does not use it, and reads one folder k times, which has no counterpart here.

Here: the judge is the feedback; in `sequential`, too, whose actor examines its attempts without one there; loops
without a verdict give no items. A loop ends at its first success, so MaTTS has the attempts up to it; of a loop with
one attempt it is as without scaling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from reflexion_lab.agent.reflectors.fields import VALUE
from reflexion_lab.limits import Positive, validated
from reflexion_lab.memory.curators.calls import Calls
from reflexion_lab.memory.curators.index import Index
from reflexion_lab.memory.curators.trajectories import case
from reflexion_lab.protocols import Model, Retriever
from reflexion_lab.records import Batch, Curation, Finished, Item, Sampling, Selection, Task
from reflexion_lab.text.prompts.render import Prompts
from reflexion_lab.text.replies.extract import without_thoughts
from reflexion_lab.text.replies.labelled import Labels, has_words, letters, one_line
from reflexion_lab.text.shorten import cut

SECTION = "Strategies from a similar task"
MOST = {"success": 3, "failure": 3, "parallel": 5, "sequential": 5}
"""Largest number of items of a call, by its kind."""
INVERTED = {"success": "failure", "failure": "success"}
CHARS = {"TITLE": 120, "DESCRIPTION": 300, "CONTENT": 600}
"""Lengths of an item's parts."""
_LABELS = Labels({**{part: (part.lower(),) for part in CHARS}, "ITEM": ("memory_item", "item")})


class ReasoningBank:
    """Strategies of the most similar past tasks.

    `retriever`: empty, for this curator alone. `scaling`: MaTTS: `none` (only the submitted attempt), `parallel` or
    `sequential`. `variant`: `paper`, or `released`: success is inverted, and items are the blocks between blank lines.
    `n`: past tasks whose items are in the prompt. `max_chars`: length of a finished loop in the prompt. `constrained`:
    send the grammar, for models that support one.
    """

    bank = True

    @validated
    def __init__(
        self,
        retriever: Retriever,
        model: Model,
        sampling: Sampling,
        prompts: Prompts | None = None,
        *,
        scaling: Literal["none", "parallel", "sequential"] = "none",
        variant: Literal["paper", "released"] = "paper",
        n: Positive = 1,
        max_chars: Positive = 3000,
        constrained: bool = True,
    ) -> None:
        is_single = scaling == "none"
        self.calls = Calls(
            model, sampling, prompts, max_chars=max_chars, submitted_only=is_single, constrained=constrained
        )
        self.index = Index(retriever)
        self._grouped: tuple[Sequence[Item], dict[str, list[Item]], list[Item]] = ((), {}, [])
        """Items, by task, and the newest of each."""
        self.scaling = scaling
        self.variant = variant
        self.n = n

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        known, by_task, newest = self._grouped
        if known is not items or not isinstance(items, tuple):
            by_task = {}
            for item in items:
                by_task.setdefault(item.key, []).append(item)
            newest = [own[-1] for own in by_task.values()]
            self._grouped = items, by_task, newest
        nearest = self.index.nearest(newest, task.prompt, self.n)
        return Selection(items=tuple(item for near in nearest for item in by_task[near.key]))

    def due(self, finished: Sequence[Finished]) -> Sequence[Batch]:
        return [Batch(finished=(each,), kind=self._kind(each)) for each in finished if each.passed is not None]

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        (each,) = batch.finished
        most, kind = MOST[batch.kind], batch.kind
        if self.variant == "released":
            kind = INVERTED.get(kind, kind)
        reply = self.calls("reasoning_bank", batch.finished, grammar(most), kind=kind, most=most)
        texts = blocks(reply.text) if self.variant == "released" else strategies(reply.text)[:most]
        return Curation(
            operations=tuple(case(each, text, SECTION) for text in texts),
            usage=reply.usage,
            unreadable=int(not texts),
            replies=(reply.text,),
        )

    def _kind(self, finished: Finished) -> str:
        if self.scaling != "none" and len(finished.attempts) > 1:
            return self.scaling
        return "success" if finished.passed else "failure"


FORM = "the insight, in one to three sentences"
"""What the prompt says in the place of a content."""


def grammar(most: int) -> str:
    """GBNF of one to `most` items."""
    return (
        rf"""
root ::= item{{1,{most}}}
item ::= "TITLE: " value "DESCRIPTION: " value "CONTENT: " value "\n"
"""
        + VALUE
    )


def strategies(reply: str) -> list[str]:
    """The items of a reply that have a title and a content, in order; a title begins the next one. A content that
    repeats the prompt's `FORM` is none: small models copy it.
    """
    items: list[dict[str, str]] = []
    for label, lines, _ in _LABELS.sections(without_thoughts(reply)[0]):
        if label == "TITLE" or not items:
            items.append({})
        text = one_line(" ".join(lines))
        if label in CHARS and has_words(text):
            items[-1].setdefault(label, cut(text, CHARS[label]))
    whole = [item for item in items if {"TITLE", "CONTENT"} <= item.keys()]
    whole = [item for item in whole if not letters(item["CONTENT"]).startswith(letters(FORM))]
    return ["\n".join(item[part] for part in CHARS if part in item) for item in whole]


def blocks(reply: str) -> list[str]:
    """The blocks of a reply between blank lines."""
    texts = (text.strip() for text in without_thoughts(reply)[0].split("\n\n"))
    return [text for text in texts if has_words(text)]
