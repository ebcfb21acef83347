"""Dynamic Cheatsheet: one page that a model rewrites as a whole (Suzgun et al., arXiv 2504.07952;
suzgunmirac/dynamic-cheatsheet@1cf258c, `dynamic_cheatsheet/language_model.py`).

The curator sees question, answer and page, and no label: it judges the answer itself. `variant="cumulative"` (DC-Cu)
rewrites the page after each task. `variant="retrieval_synthesis"` (DC-RS) rewrites it before each task, from the page
and the three nearest earlier questions with their answers; the actor reads what was written.

The page is the text behind the first `<cheatsheet>`, up to `</cheatsheet>` or the end, as in the code. Without the tag,
the old page stays and the reply counts as unreadable; so does an empty page, and one that was cut at `max_tokens`: the
released code takes both over, and without a tag DC-RS there has the earlier questions and answers themselves as its
page. A page beyond the limit of memory is neither kept nor shown. The prompt names the number of words that
`max_tokens` and that limit allow, there 2000 to 2500. Here, unlike there: the answer
is the submitted program of the loop; the first question of DC-RS, for which there is no pair, costs no call; tasks of
one round read the same page, and the last of them that wrote one determines it; pairs are part of memory, whose
`max_items` removes the oldest pairs, never the page.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from reflexion_lab.limits import Positive, validated
from reflexion_lab.memory.curators.calls import Calls, Reply
from reflexion_lab.memory.curators.index import Index
from reflexion_lab.memory.curators.items import SCORE, ItemLimits
from reflexion_lab.memory.curators.trajectories import case, described
from reflexion_lab.protocols import Model, Retriever
from reflexion_lab.records import Batch, Curation, Finished, Item, Operation, Sampling, Selection, Task
from reflexion_lab.text.prompts.render import Prompts
from reflexion_lab.text.replies.extract import without_thoughts
from reflexion_lab.text.shorten import estimated

PAGE = "page"
"""Id of the page."""
PAIRS = "pairs"
"""Section of earlier questions and answers, which no actor reads."""
OPEN, CLOSE = "<cheatsheet>", "</cheatsheet>"
WORDS_PER_TOKEN = 0.6
"""For the limit that the prompt names; English has about 0.75."""

GRAMMAR = r"""
root ::= "<cheatsheet>\n" line line{0,23} "</cheatsheet>\n"
line ::= "- " [A-Z] [a-z]{0,23} (" " word){2,23} "\n"
word ::= [a-zA-Z_.,`']{1,24} | [!-;=?-~]{1,10}
"""
"""GBNF of a page of 1 to 24 lines."""


class DynamicCheatsheet:
    """A page of advice that is written anew as a whole.

    `model`, `sampling`, `prompts`: of the curator's calls. `retriever`: finds earlier questions, of which the nearest
    is shown last. Empty, for this curator alone. `variant`: `cumulative` or `retrieval_synthesis`. `k`: earlier
    questions of `retrieval_synthesis`. `max_chars`: length of each question with its answer. `constrained`: send a
    grammar, for models that support one. `limits`: of memory, and so of the page.
    """

    bank = (PAIRS,)

    @validated
    def __init__(
        self,
        model: Model,
        sampling: Sampling,
        retriever: Retriever,
        prompts: Prompts | None = None,
        *,
        variant: Literal["cumulative", "retrieval_synthesis"] = "cumulative",
        k: Positive = 3,
        max_chars: Positive = 3000,
        constrained: bool = False,
        limits: ItemLimits | None = None,
    ) -> None:
        self.call = Calls(model, sampling, prompts, max_chars=max_chars, has_verdict=False, constrained=constrained)
        self.index = Index(retriever)
        self.variant = variant
        self.k = k
        self.longest = (limits.max_tokens if limits else 0) or math.inf
        self.words = round(WORDS_PER_TOKEN * min(sampling.longest, self.longest))

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        page = tuple(item for item in items if item.item_id == PAGE)
        pairs = [item for item in items if item.section == PAIRS]
        near = self.index.nearest(pairs, task.prompt, self.k) if self.variant == "retrieval_synthesis" else []
        if not near:
            return Selection(items=page)
        texts = [pair.text for pair in reversed(near)]
        question, old = task.prompt, _text(page)
        reply = self.call("cheatsheet_synthesis", texts, GRAMMAR, page=old, words=self.words, question=question)
        written = read_page(reply)
        if estimated(written) > self.longest:
            return Selection(items=page, usage=reply.usage)
        digest = hashlib.sha256(f"{task.loop_id} {written}".encode()).hexdigest()[:8]
        new = (Item(item_id=f"{PAGE}-{digest}", text=written),)
        return Selection(items=new if written else page, usage=reply.usage)

    def due(self, finished: Sequence[Finished]) -> Sequence[Batch]:
        return [Batch(finished=(loop,)) for loop in finished]

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        (loop,) = batch.finished
        page = tuple(item for item in items if item.item_id == PAGE)
        return self._rewrite(page, loop) if self.variant == "cumulative" else self._store(page, loop)

    def _rewrite(self, page: Sequence[Item], loop: Finished) -> Curation:
        """Write the page anew after a task."""
        reply = self.call("cheatsheet", (loop,), GRAMMAR, page=_text(page), words=self.words)
        written = read_page(reply)
        operations = _as_page(page, written, loop.task)
        return Curation(operations=operations, usage=reply.usage, unreadable=int(not written), replies=(reply.text,))

    def _store(self, page: Sequence[Item], loop: Finished) -> Curation:
        """Keep the page that was written before a task, and the task with its answer."""
        first = loop.attempts[0]
        written = _text(first.written_items)
        pair = replace(case(loop, described(loop, self.call.max_chars, has_verdict=False), PAIRS), outcome=None)
        is_unread = first.selection_usage.calls > 0 and not written
        return Curation(operations=(*_as_page(page, written, loop.task), pair), unreadable=int(is_unread))


def read_page(reply: Reply) -> str:
    """The page in a reply; "" without one, or if its end is missing because the reply was cut."""
    _, _, after = without_thoughts(reply.text)[0].partition(OPEN)
    if reply.is_cut and CLOSE not in after:
        return ""
    return after.partition(OPEN)[0].partition(CLOSE)[0].encode(errors="replace").decode().strip()


def _text(items: Sequence[Item]) -> str:
    return items[0].text if items else ""


def _as_page(page: Sequence[Item], text: str, task: Task) -> tuple[Operation, ...]:
    """The operation that makes `text` the page; its score of 1 keeps it when limits remove pairs."""
    new = Operation(kind="add", item_ids=(PAGE,), text=text, votes={SCORE: 1}, sources=(task.loop_id,))
    return () if not text else (replace(new, kind="edit", votes={}),) if page else (new,)
