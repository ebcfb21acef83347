"""ExpeL: a list of rules that a model votes on, edits and extends (Zhao et al., arXiv 2308.10144;
LeapLabTHU/ExpeL@e41ec9a, `agent/expel.py`).

A new rule has the score 2; a vote for it or an edit adds 1, a vote against it takes 1; at 0 it is removed. Only in the
released code (`variant="released"`): votes are matched by the rule that they quote, not by their number; an addition
that quotes a rule is dropped, and an edit that quotes one is a vote for it; a vote against a rule takes 3 when the list
has `max_rules` + 5 rules or more, and the prompt asks for removals from `max_rules` rules on. `variant="paper"`: votes
are always of 1; that numbers count, and one operation per rule, is our reading of its prompt.

Here, unlike there: successful loops are shown beside the rules only with `examples` (paper: 2 to 6); an operation
begins its line; "Name: " before a rule stays; chunks of successes are in task order instead of random; ties of the
score are in order of arrival. Operations of one call on one rule are applied as one, so that a rule is removed only if
their sum says so, as there. A stream (`round_size: 1`) has chunks of one success.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec.structs import replace

from reflexion_lab.limits import Count, Positive, validated
from reflexion_lab.memory.curators.calls import Calls
from reflexion_lab.memory.curators.index import Index
from reflexion_lab.memory.curators.items import SCORE
from reflexion_lab.memory.curators.trajectories import case, described, verdict_word
from reflexion_lab.protocols import Model, Retriever
from reflexion_lab.records import Attempt, Batch, Curation, Finished, Item, Operation, Sampling, Selection, Task
from reflexion_lab.text.prompts.render import Prompts
from reflexion_lab.text.replies.extract import without_thoughts
from reflexion_lab.text.replies.labelled import Labels, one_line

CHUNK = 8
"""Successes of one call."""
NEW, FULL = 2, 3
"""Score of a new rule, and of a vote against a rule of a full list."""
SLACK = 5
"""Rules beyond `max_rules` at which the list is full."""
EXAMPLES = "examples"
"""Section of the examples; rules have none."""
BANNED = ("ADD", "AGREE", "EDIT")
"""Words of operations, which no rule contains."""
_LABELS = Labels({"AGREE": ("AGREE", "UPVOTE"), "REMOVE": ("REMOVE", "DOWNVOTE"), "EDIT": ("EDIT",), "ADD": ("ADD",)})
"""The names of the code, and those of the paper."""


class Change(NamedTuple):
    name: str
    number: int
    """Of the rule, 1-based; 0 for none."""
    text: str


class ExpeL:
    """Rules from pairs of a passed and a failed attempt at one task, then from chunks of successes.

    `model`, `sampling`, `prompts`: of the curator's calls. `retriever`: finds the examples. Empty, for this curator
    alone. `variant`: `paper` or `released`. `max_rules`: number of rules from which the prompt of `released` asks for
    removals; no limit. `max_operations`: operations of one call that count, the first ones; 0: all, as in the released
    code. `examples`: similar successful loops in the actor's prompt, behind the rules; 0: none are kept. `max_chars`:
    length of each loop in a prompt. `constrained`: send grammars, for models that support them.
    """

    bank = (EXAMPLES,)

    @validated
    def __init__(
        self,
        model: Model,
        sampling: Sampling,
        prompts: Prompts | None = None,
        retriever: Retriever | None = None,
        *,
        variant: Literal["paper", "released"] = "released",
        max_rules: Positive = 20,
        max_operations: Count = 4,
        examples: Count = 0,
        max_chars: Positive = 3000,
        constrained: bool = True,
    ) -> None:
        self.call = Calls(model, sampling, prompts, max_chars=max_chars, submitted_only=False, constrained=constrained)
        self.index = Index(retriever) if retriever and examples else None
        self.variant = variant
        self.max_rules = max_rules
        self.max_operations = max_operations
        self.examples = examples

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        examples = [item for item in items if item.section == EXAMPLES]
        near = self.index.nearest(examples, task.prompt, self.examples) if self.index else []
        return Selection(items=(*rules_of(items), *near))

    def due(self, finished: Sequence[Finished]) -> Sequence[Batch]:
        pairs = [
            Batch(finished=(replace(loop, attempts=(success, failure)),), kind="pair")
            for loop in finished
            for success in _of(loop, "passed")
            for failure in _of(loop, "failed")
        ]
        passed = [replace(loop, attempts=successes[:1]) for loop in finished if (successes := _of(loop, "passed"))]
        size = math.ceil(len(passed) / (math.ceil(len(passed) / CHUNK) or 1)) or 1  # of chunks of about equal size
        chunks = [tuple(passed[start : start + size]) for start in range(0, len(passed), size)]
        return [*pairs, *(Batch(finished=chunk, kind="successes") for chunk in chunks)]

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        rules = rules_of(items)
        reply, usage, _ = self.call(
            "expel",
            batch.finished,
            grammar([rule.text for rule in rules]),
            kind=batch.kind,
            rules=rules,
            is_full=self.variant == "released" and len(rules) >= self.max_rules,
        )
        changes = parse(reply)
        sources = tuple(loop.task.loop_id for loop in batch.finished)
        operations = self.operations(rules, changes, sources)
        if self.examples and batch.kind == "successes":
            operations += [case(loop, described(loop, self.call.max_chars), EXAMPLES) for loop in batch.finished]
        return Curation(operations=tuple(operations), usage=usage, unreadable=int(not changes), replies=(reply,))

    def operations(self, rules: Sequence[Item], changes: Sequence[Change], sources: tuple[str, ...]) -> list[Operation]:
        """The operations on memory of one reply: changes of rules, one per rule, then new rules."""
        is_released = self.variant == "released"
        votes, texts, new = Counter[int](), dict[int, str](), list[str]()
        against = FULL if is_released and len(rules) >= self.max_rules + SLACK else 1
        for change in changes[: self.max_operations or None]:
            name, number, text = _matched(change, rules) if is_released else change
            if name == "ADD":
                new += [text] if not (is_released and number) else []
            elif 1 <= number <= len(rules) and (is_released or number not in votes):
                votes[number] += -against if name == "REMOVE" else 1
                texts |= {number: text} if name == "EDIT" else {}
        changed = [
            Operation(
                kind="edit" if number in texts else "vote",
                item_ids=(rules[number - 1].item_id,),
                text=texts.get(number, ""),
                votes={SCORE: votes[number]},
                sources=sources if number in texts else (),
            )
            for number in votes
        ]
        return changed + [Operation(kind="add", text=text, votes={SCORE: NEW}, sources=sources) for text in new]


def rules_of(items: Sequence[Item]) -> list[Item]:
    """The rules, the highest score first, the older on a tie."""
    rules = [item for item in items if item.section != EXAMPLES]
    return sorted(rules, key=lambda rule: -rule.counts.get(SCORE, 0))


def parse(reply: str) -> list[Change]:
    """The operations of a reply whose text is printable, ends in a full stop and contains no word of `BANNED`.

    The text is on the line of the operation or the next one, emphasis is removed. A reply without such an operation
    counts as unreadable, also one that wants to change nothing: the prompt has no words for that.
    """
    sections = _LABELS.sections(without_thoughts(reply)[0])
    changes = (Change(name, number, _text(lines)) for name, lines, number in sections)
    sentences = [change for change in changes if change.text[1:].endswith(".") and change.text.isprintable()]
    return [change for change in sentences if not any(word in change.text for word in BANNED)]


def _text(lines: Sequence[str]) -> str:
    """The first line that is not empty, without emphasis."""
    return next(filter(None, (one_line(line).strip("* ") for line in lines)), "")


def _matched(change: Change, rules: Sequence[Item]) -> Change:
    """The change with the number of the first rule that it quotes; an edit that quotes one is a vote for it."""
    quoted = next((place for place, rule in enumerate(rules, 1) if rule.text in change.text), 0)
    if change.name == "EDIT":
        return Change("AGREE", quoted, change.text) if quoted else change
    return change._replace(number=quoted)


def _of(loop: Finished, word: str) -> tuple[Attempt, ...]:
    """The attempts of a loop with this verdict."""
    return tuple(attempt for attempt in loop.attempts if verdict_word(attempt) == word)


def grammar(rules: Sequence[str]) -> str:
    """GBNF of one to four operations; votes quote a rule as it is, edits name its number.

    New texts have an opening and no digits (SmolLM2-135M repeats them). No two capitals are adjacent, as in `BANNED`.
    """
    votes = [f"({_quoted(f'{number}: {rule}')})" for number, rule in enumerate(rules, 1)]
    known = ["vote", "edit"] if rules else []
    lines = [
        "root ::= line line? line? line?",
        f'line ::= ({" | ".join([*known, "add"])}) "\\n"',
        f'add ::= "ADD {len(rules) + 1}: " rule',
        r'rule ::= ("Always" | "Avoid" | "Check" | "Use") (" " word){3,15} "."',
        r"word ::= [A-Z] | ([A-Z]? [a-z_,`']){1,24}",
    ]
    if rules:
        numbers = " | ".join(_quoted(str(number)) for number in range(1, len(rules) + 1))
        lines += [f'vote ::= ("AGREE " | "REMOVE ") ({" | ".join(votes)})', f'edit ::= "EDIT " ({numbers}) ": " rule']
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A literal of GBNF."""
    return json.dumps(text, ensure_ascii=False)
