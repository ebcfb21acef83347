"""A-Mem (Xu et al., arXiv 2502.12110; agiresearch/A-mem@ceffb86): linked notes; new ones rewrite their neighbours.

Paper: a model describes each new note by keywords, a context and tags; a second call reads its 5 nearest neighbours and
decides whether it evolves: `strengthen` links the new note and tags it anew, `update_neighbor` rewrites the context and
the tags of neighbours. The prompt shows the k nearest notes and those that they link to. Success plays no part.
Released (`variant: released`): notes are not described first (at 60c9bc2 they are, where the caller describes them in
part), and retrieval compares their content alone. Other faults of the code, read at 60c9bc2, are not imitated:
`update_neighbor` writes to the oldest notes of memory instead of the neighbours; the prompt shows no ids, of which
links are made; and linked notes are cut off behind the k nearest.

Here: a note's content is a task with the submitted program, without verdict, checks and reflection. A note is kept even
if the replies about it cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from reflexion_lab.agent.reflectors.fields import VALUE
from reflexion_lab.limits import Positive, validated
from reflexion_lab.memory.curators.calls import Calls, Reply
from reflexion_lab.memory.curators.index import Index
from reflexion_lab.memory.curators.trajectories import case, described
from reflexion_lab.protocols import Model, Retriever
from reflexion_lab.records import Batch, Curation, Finished, Item, Operation, Sampling, Selection, Task, Usage
from reflexion_lab.text.prompts.render import Prompts
from reflexion_lab.text.replies.extract import without_thoughts
from reflexion_lab.text.replies.labelled import Labels, has_words, letters, one_line
from reflexion_lab.text.shorten import cut

SECTION = "Notes on other tasks"
CHARS = 300
"""Length of keywords, a context and tags."""
TAGS = r"""tags ::= "TAGS: " tag (", " tag){0,4} "\n"
tag ::= [a-z] [a-z ]{2,20}
"""
ANALYSIS = (
    r"""
root ::= "KEYWORDS: " tag (", " tag){2,5} "\n" "CONTEXT: " value tags
"""
    + TAGS
    + VALUE
)
"""GBNF of a note's description."""
_ANSWERS = {"yes": True, "true": True, "no": False, "false": False}
_LABELS = Labels(
    {
        "KEYWORDS": ("keywords",),
        "CONTEXT": ("context", "new_context"),
        "TAGS": ("tags", "new_tags"),
        "EVOLVE": ("evolve", "should_evolve"),
        "LINK": ("link", "links"),
        "NEIGHBOUR": ("neighbour", "neighbor"),
    },
    "a_mem_*",
)


class Note(NamedTuple):
    """A note: its content, and what the model says about it, each on one line."""

    content: str
    context: str = "General"
    keywords: str = ""
    tags: str = ""

    @property
    def text(self) -> str:
        return f"Context: {self.context}\nKeywords: {self.keywords}\nTags: {self.tags}\n{self.content}"

    @classmethod
    def of(cls, item: Item) -> Note:
        """The note of an item that has its `text`."""
        *lines, content = item.text.split("\n", 3)
        return cls(content, *(line.partition(": ")[2] for line in lines))


class Decision(NamedTuple):
    links: tuple[int, ...] = ()
    """Numbers of neighbours, from 1."""
    values: dict[tuple[int, str], str] = {}  # noqa: RUF012
    """New texts by number of the neighbour, 0 for the new note, and label."""


class AMem:
    """Notes on finished loops, and the nearest of them with those that they link to.

    `retriever`: empty, for this curator alone. `variant`: `paper`, or `released`: new notes are not described, and
    compared by their content alone. `k`: nearest notes in the prompt; at most as many linked ones follow them.
    `neighbours`: nearest notes that a new one may change. `max_chars`: length of a note's content. `constrained`: send
    the grammars, for models that support them.
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
        variant: Literal["paper", "released"] = "paper",
        k: Positive = 5,
        neighbours: Annotated[int, Meta(ge=1, le=9)] = 5,
        max_chars: Positive = 1000,
        constrained: bool = True,
    ) -> None:
        self.calls = Calls(model, sampling, prompts, max_chars=max_chars, constrained=constrained)
        self.index = Index(retriever)
        self.variant = variant
        self.k = k
        self.neighbours = neighbours

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        nearest = self.index.nearest(items, task.prompt, self.k)
        by_id = {item.item_id: item for item in items}
        known = {item.item_id for item in nearest}
        links = dict.fromkeys(name for item in nearest for name in item.links if name in by_id and name not in known)
        return Selection(items=(*nearest, *[by_id[name] for name in links][: self.k]))

    def due(self, finished: Sequence[Finished]) -> Sequence[Batch]:
        return [Batch(finished=(each,)) for each in finished]

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        (each,) = batch.finished
        note, replies, unreadable = Note(described(each, self.calls.max_chars, has_verdict=False)), list[Reply](), 0
        if self.variant == "paper":
            replies.append(self.calls("a_mem_note", grammar=ANALYSIS, content=note.content))
            values = _values(replies[-1].text)
            unreadable += not values
            note = _changed(note, values, 0)
        compared = note.text if self.variant == "paper" else note.content
        near = self.index.nearest(items, compared, self.neighbours, is_item=True)
        decision = Decision()
        if near:
            known = [Note.of(item) for item in near]
            replies.append(self.calls("a_mem_evolve", grammar=evolution(len(near)), note=note, neighbours=known))
            read = decided(replies[-1].text, len(near))
            unreadable += read is None
            decision = read or decision
        operations = list(_edits(near, decision, (each.task.loop_id,)))
        operations.append(
            replace(
                case(each, _changed(note, decision.values, 0).text, SECTION),
                key="" if self.variant == "paper" else note.content,
                links=tuple(near[number - 1].item_id for number in decision.links),
            )
        )
        usage = sum((reply.usage for reply in replies), Usage())
        texts = tuple(reply.text for reply in replies)
        return Curation(operations=tuple(operations), usage=usage, unreadable=unreadable, replies=texts)


def evolution(neighbours: int) -> str:
    """GBNF of a decision about a note with so many neighbours, at most 9."""
    return (
        rf"""
root ::= "EVOLVE: no\n" | "EVOLVE: yes\n" link tags neighbour{{0,{neighbours}}}
link ::= "LINK: " ("none" | number (", " number){{0,8}}) "\n"
neighbour ::= "NEIGHBOUR: " number "\n" "CONTEXT: " value tags
number ::= [1-{neighbours}]
"""
        + TAGS
        + VALUE
    )


def decided(reply: str, neighbours: int) -> Decision | None:
    """The decision in a reply; None if it does not say whether the note evolves. The first of several values counts.

    `LINK` and `NEIGHBOUR` name notes by number; a `NEIGHBOUR` without one is the next. `CONTEXT` and `TAGS` are those
    of the neighbour before them; before the first, `TAGS` are those of the new note.
    """
    sections = list(_LABELS.sections(without_thoughts(reply)[0]))
    answers = (_ANSWERS.get(letters(" ".join(lines)[:CHARS])) for label, lines, _ in sections if label == "EVOLVE")
    evolves = next((answer for answer in answers if answer is not None), None)
    if not evolves:
        return None if evolves is None else Decision()
    links = [number for label, lines, _ in sections if label == "LINK" for number in _numbers(lines)]
    valid = tuple(dict.fromkeys(number for number in links if 1 <= number <= neighbours))
    known = {(number, label) for number in range(neighbours + 1) for label in ("CONTEXT", "TAGS")} - {(0, "CONTEXT")}
    values = {place: text for place, text in _values(reply).items() if place in known}
    return Decision(valid, values)


def _values(reply: str) -> dict[tuple[int, str], str]:
    """Keywords, contexts and tags by the number of the neighbour before them, else 0."""
    values: dict[tuple[int, str], str] = {}
    number = 0
    for label, lines, _ in _LABELS.sections(without_thoughts(reply)[0]):
        if label == "NEIGHBOUR":
            number = next(iter(_numbers(lines)), number + 1)
        elif label in ("KEYWORDS", "CONTEXT", "TAGS"):
            text = cut(one_line(" ".join(lines)), CHARS)
            if has_words(text) and letters(text) != "none":
                values.setdefault((number, label), text)
    return values


def _numbers(lines: Sequence[str]) -> list[int]:
    return [int(digits) for digits in re.findall(r"\b[0-9]{1,3}\b", " ".join(lines)[:CHARS])]


def _changed(note: Note, values: dict[tuple[int, str], str], number: int) -> Note:
    return note._replace(**{label.lower(): text for (place, label), text in values.items() if place == number})


def _edits(near: Sequence[Item], decision: Decision, source: tuple[str, ...]) -> list[Operation]:
    """Of neighbours with other contexts or tags than before."""
    texts = [_changed(Note.of(item), decision.values, number).text for number, item in enumerate(near, 1)]
    return [
        Operation(kind="edit", item_ids=(item.item_id,), text=text, sources=source)
        for item, text in zip(near, texts, strict=True)
        if text != item.text
    ]
