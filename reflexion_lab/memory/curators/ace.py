"""ACE: a playbook of short items that grows by small operations (Zhang et al., arXiv 2510.04618; ace-agent/ace@ba78d34,
`ace/ace.py`, `ace/core`, `playbook_utils.py`).

Two calls per finished loop. The reflector tags each item that the actor read as helpful, harmful or neutral, which
counts, and names an insight. The curator reads the playbook with these counts, the task and the reflection, and adds
items. All items are in every prompt of an actor. Only ADD has an effect; the released code accepts UPDATE, MERGE and
DELETE, too, and ignores them; a reply with an incomplete ADD is rejected as a whole.

`variant="paper"` removes duplicates after each call ("grow and refine"): a new item whose similarity to an old one is
0.9 or more is dropped, and its source kept. In the released code this is off. There, a model merges the texts of
similar items and their counts are added. The paper also prunes older items and those of low utility once the playbook
is too long: here, in both variants, the limits of `memory.shared.items` remove the items that were more often harmful
than helpful first, then the oldest; the budget of tokens in the prompt is a number there. Limits count bare texts.

Here, unlike there: up to three rounds of reflection and retry (paper: five) are the loop's own attempts, so that one
reflection reads them all and votes once; it tags every item that was shown, because actors do not name those they used;
there is no ground truth but the feedback's verdict; ids are the lab's; equal texts are refused
(`memory.shared.items.duplicates`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Count, Positive, Share, validated
from reflexion_lab.memory.curators.calls import Calls
from reflexion_lab.memory.curators.index import Index
from reflexion_lab.memory.curators.items import rebuilt
from reflexion_lab.protocols import Model, Retriever
from reflexion_lab.records import Batch, Curation, Finished, Item, Operation, Sampling, Selection, Task
from reflexion_lab.text.prompts.render import Prompts
from reflexion_lab.text.replies.extract import without_thoughts
from reflexion_lab.text.replies.labelled import has_words, letters, objects, one_line
from reflexion_lab.text.shorten import cut

SECTIONS = (
    "STRATEGIES & INSIGHTS", "FORMULAS & CALCULATIONS", "CODE SNIPPETS & TEMPLATES", "COMMON MISTAKES TO AVOID",
    "PROBLEM-SOLVING HEURISTICS", "CONTEXT CLUES & INDICATORS", "OTHERS",
)  # fmt: skip
"""Sections of the playbook; items of unknown sections go into the last."""
TAGS = ("helpful", "harmful", "neutral")
NEW = {"helpful": 0, "harmful": 0}
"""Counts of a new item."""
INSIGHTS = ("erroridentification", "rootcauseanalysis", "correctapproach", "keyinsight")
"""Keys of a reflection that the curator reads, reduced to letters."""
SIMILAR = 0.9
"""Similarity of duplicates."""
TAG_TOKENS = 30
"""Tokens of one tag in a reflection, beyond those of its sampling."""
CHARS = 2000
"""Characters of a reflection in the curator's prompt."""


class Reflected(NamedTuple):
    tags: dict[str, str]
    """Tag by id of an item, of `TAGS`."""
    text: str


class ACE:
    """A playbook in sections.

    Raises ConfigError: `similar` without a retriever whose scores are similarities (`is_similarity`). `model`,
    `sampling`, `prompts`: of both calls. `retriever`: finds similar items for `similar`. Empty, for this curator alone.
    `variant`: `paper` or `released`. `similar`: retriever score, in [0, 1], from which a new item repeats an old one;
    0: never. None: 0.9 for `paper`, else 0. `token_budget`: in the curator's prompt; 0: none. `max_chars`: length of
    the loop in a prompt. `constrained`: send grammars, for models that support them.
    """

    @validated
    def __init__(
        self,
        model: Model,
        sampling: Sampling,
        prompts: Prompts | None = None,
        retriever: Retriever | None = None,
        *,
        variant: Literal["paper", "released"] = "released",
        similar: Share | None = None,
        token_budget: Count = 80_000,
        max_chars: Positive = 3000,
        constrained: bool = True,
    ) -> None:
        self.call = Calls(model, sampling, prompts, max_chars=max_chars, submitted_only=False, constrained=constrained)
        self.similar = {"paper": SIMILAR, "released": 0.0}[variant] if similar is None else similar
        if self.similar and not getattr(retriever, "is_similarity", False):
            got = f"{self.similar:g} with {type(retriever).__name__ if retriever else 'no retriever'}"
            expected = "a retriever whose scores are similarities: embedding, or jaccard"
            raise ConfigError("curator.similar", got, expected, "curator.similar=0 keeps duplicates")
        self.index = Index(retriever) if retriever and self.similar else None
        self.token_budget = token_budget

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        return Selection(items=tuple(replace(item, text=line_of(item)) for item in in_sections(items)))

    def due(self, finished: Sequence[Finished]) -> Sequence[Batch]:
        return [Batch(finished=(loop,)) for loop in finished]

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        (loop,) = batch.finished
        known = {item.item_id for item in items}
        shown = [item for item in loop.shown if item.item_id in known]
        tags_length = TAG_TOKENS * len(shown)
        grammar = reflection_grammar(shown)
        reflection = self.call("ace_reflect", batch.finished, grammar, tags_length, lines=_lines(shown))
        reflected = parse_reflection(reflection.text, [item.item_id for item in shown])
        tags = reflected.tags if reflected else {}
        votes = [
            Operation(kind="vote", item_ids=(name,), votes={tag: 1}, reason="tag")
            for name, tag in tags.items()
            if tag != "neutral"
        ]
        playbook = in_sections(rebuilt(items, votes))
        curation = self.call(
            "ace_curate",
            [loop.task.prompt],
            OPERATIONS,
            lines=_lines(playbook),
            statistics=statistics(playbook),
            reflection=reflected.text if reflected else cut(reflection.text, CHARS),
            sections=SECTIONS,
            token_budget=self.token_budget,
        )
        stated = parse_operations(curation.text)
        additions = [fields for fields in stated or () if _kind(fields) == "ADD"]
        new = self._distinct(additions, items, loop.task.loop_id)
        return Curation(
            operations=(*votes, *new),
            usage=reflection.usage + curation.usage,
            unreadable=[reflected, stated].count(None),
            replies=(reflection.text, curation.text),
        )

    def _distinct(self, additions: Sequence[Mapping[str, Any]], items: Sequence[Item], source: str) -> list[Operation]:
        """New items; one similar to an old one only adds its source to it, one similar to another new one nothing."""
        operations, every, new = list[Operation](), [*items], set[str]()
        for place, fields in enumerate(additions):
            text = _text(fields["content"])
            near = self.index.nearest(tuple(every), text, 1, self.similar, is_item=True) if self.index else []
            if not near:
                section = section_of(fields["section"])
                operations.append(Operation(kind="add", text=text, section=section, votes=NEW, sources=(source,)))
                new.add(name := f"new {place}")
                every.append(Item(item_id=name, text=text))
            elif (name := near[0].item_id) not in new:
                operations.append(Operation(kind="edit", item_ids=(name,), sources=(source,), reason="similar"))
        return operations


def in_sections(items: Sequence[Item]) -> list[Item]:
    """The items in the order of `SECTIONS`, the oldest of a section first."""
    return sorted(items, key=lambda item: SECTIONS.index(section_of(item.section)))


def section_of(name: object) -> str:
    """The section with this name, whatever its case and separators; else the last."""
    wanted = letters(str(name).replace("&", "and"))
    return next((section for section in SECTIONS if letters(section.replace("&", "and")) == wanted), SECTIONS[-1])


def line_of(item: Item) -> str:
    helpful, harmful = item.counts.get("helpful", 0), item.counts.get("harmful", 0)
    return f"[{item.item_id}] helpful={helpful} harmful={harmful} :: {item.text}"


def statistics(playbook: Sequence[Item]) -> dict[str, int]:
    """Numbers of items by their counts, as in the code's `get_playbook_stats`."""
    counts = [(item.counts.get("helpful", 0), item.counts.get("harmful", 0)) for item in playbook]
    return {
        "high-performing": sum(helpful > 5 and harmful < 2 for helpful, harmful in counts),
        "problematic": sum(0 < harmful >= helpful for helpful, harmful in counts),
        "unused": counts.count((0, 0)),
    }


def _lines(items: Sequence[Item]) -> list[tuple[str, str]]:
    return [(item.section, line_of(item)) for item in items]


def parse_reflection(reply: str, ids: Sequence[str]) -> Reflected | None:
    """Tags of the items of these `ids`, of several for one the last; None for a reply without tags and insight.

    Of a reply that broke off, the tags before its end count.
    """
    parts = list(objects(without_thoughts(reply)[0]))
    for fields in parts:
        texts = [text for key in INSIGHTS if (text := _text(fields.get(key)))]
        entries = fields.get("bullettags")
        if texts or isinstance(entries, list):
            stated = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
            named = [(entry.get("id") or entry.get("bullet"), entry.get("tag")) for entry in stated]
            tags = {str(name): str(tag) for name, tag in named if name in ids and tag in TAGS}
            return Reflected(tags, cut("\n".join(texts), CHARS))
    tags = {str(each.get("id")): str(each.get("tag")) for each in parts if each.get("id") in ids}
    tags = {name: tag for name, tag in tags.items() if tag in TAGS}
    return Reflected(tags, "") if tags else None


def parse_operations(reply: str) -> list[Mapping[str, Any]] | None:
    """The stated operations; None for a reply without a list of them, or with an ADD without section or content."""
    for fields in objects(without_thoughts(reply)[0]):
        stated = fields.get("operations")
        if isinstance(stated, list):
            is_valid = all(isinstance(each, dict) and "type" in each and _is_complete(each) for each in stated)
            return stated if is_valid else None
    return None


def _is_complete(fields: Mapping[str, Any]) -> bool:
    return _kind(fields) != "ADD" or ("section" in fields and has_words(_text(fields.get("content"))))


def _kind(fields: Mapping[str, Any]) -> str:
    return str(fields["type"]).upper()


def _text(value: object) -> str:
    return one_line(value) if isinstance(value, str) else ""


_TEXTS = r"""text ::= "\"" [A-Z] [a-z]{0,23} (" " word){3,30} "\""
word ::= [a-zA-Z_.,`']{1,24} | [!#-[\]-~]{1,10}
"""


def reflection_grammar(shown: Sequence[Item]) -> str:
    """GBNF of a reflection: texts, and a tag for each item that was shown."""
    keys = ("error_identification", "root_cause_analysis", "correct_approach", "key_insight")
    texts = " ".join(f'"{", " if key != keys[0] else ""}\\"{key}\\": " text' for key in keys)
    tags = ' ", " '.join(f'"{{\\"id\\": \\"{item.item_id}\\", \\"tag\\": \\"" tag "\\"}}"' for item in shown)
    return f'root ::= "{{" {texts} ", \\"bullet_tags\\": [" {tags} "]}}"\ntag ::= {_either(TAGS)}\n{_TEXTS}'


def _either(names: Sequence[str]) -> str:
    return " | ".join(map(json.dumps, names))


OPERATIONS = f"""
root ::= "{{\\"reasoning\\": " text ", \\"operations\\": [" (add (", " add){{0,3}})? "]}}"
add ::= "{{\\"type\\": \\"ADD\\", \\"section\\": \\"" section "\\", \\"content\\": " text "}}"
section ::= {_either(SECTIONS)}
{_TEXTS}"""
"""GBNF of at most four additions."""
