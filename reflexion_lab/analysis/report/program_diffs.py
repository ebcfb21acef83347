"""Programs line by line, as they are or as the difference to the one before; and an actor's turns with their drafts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import dropwhile, takewhile, zip_longest
from typing import NamedTuple

from reflexion_lab.agent.critique.convergence import improvement_score
from reflexion_lab.records import Message, Step

OPEN = 2
"""So many of an attempt's turns, the last ones, are unfolded."""
MOST_LINES = 2_000
"""Of a program; the difference of longer ones could take minutes."""
Pieces = tuple[tuple[str, bool], ...]
"""A line in pieces, and whether each of them changed."""


class Line(NamedTuple):
    kind: str
    """`same`, `in`, `out` or `gap`."""
    gutter: str
    parts: Pieces


def program(new: str, old: str = "", name: str = "") -> tuple[list[Line], str]:
    """The lines to show of `new`, as its difference to `old`, which is called `name`; and what they are."""
    after, before = lines(new), lines(old)
    if not after:
        return [], "none was found in the reply"
    if max(len(after), len(before)) > MOST_LINES:
        return numbered(after[:MOST_LINES]), f"{len(after):,} lines, of which at most {MOST_LINES:,} are shown"
    if not before:
        return numbered(after), ""
    if after == before:
        return numbered(after), f"the very program of {name}"
    changed = _from_first(_difference(before, after))
    gone, come = ([line.kind for line in changed].count(kind) for kind in ("out", "in"))
    return changed, f"against {name}: − {gone} out, + {come} in"


class Turn(NamedTuple):
    """A step as it is shown."""

    number: int
    step: Step
    lines: list[Line]
    """Of its draft; [] where it made none, or the one before once more."""
    remark: str
    """What these lines are."""
    improvement: float | None
    """On the draft that was judged before; None where there are no two critiques."""
    received: tuple[Message, ...]
    """What the turn before had not received already."""
    known: str
    """What it had, in words; "" for nothing."""
    is_open: bool


def turns(steps: Sequence[Step]) -> Iterator[Turn]:
    """Each draft as its difference to the one before."""
    draft, name, received, judged = "", "", tuple[Message, ...](), None
    for number, step in enumerate(steps, 1):
        changed, remark = program(step.program, draft, name) if step.program else ([], "")
        again = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(received, step.messages, strict=False)))
        yield Turn(
            number,
            step,
            [] if lines(step.program) == lines(draft) else changed,
            remark,
            improvement_score(judged, step.critique) if judged and step.critique else None,
            step.messages[again:],
            f" behind {again} earlier message{'s' * (again > 1)}" if again else "",
            number > len(steps) - OPEN,
        )
        draft, name = (step.program, f"turn {number}") if step.program else (draft, name)
        received, judged = step.messages or received, step.critique or judged


def lines(text: str) -> list[str]:
    """As Python counts them: other characters that `splitlines` breaks at are part of a line."""
    return text.rstrip("\n").split("\n") if text.strip() else []


def numbered(lines: list[str]) -> list[Line]:
    return _from_first(Line("same", f"{n:>3}   ", ((line, False),)) for n, line in enumerate(lines, 1))


def _from_first(lines: Iterable[Line]) -> list[Line]:
    """Blank lines at the top are counted, but not shown."""
    return list(dropwhile(lambda line: line.kind == "same" and not any(text.strip() for text, _ in line.parts), lines))


def _difference(old: list[str], new: list[str]) -> Iterator[Line]:
    """Changed lines amid three unchanged ones on each side; those left out are counted. Gutter: old, new number."""
    end = 0
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(3):
        yield from _gap(group[0][3] - end)
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                same = enumerate(new[j1:j2], 1)
                yield from (Line("same", f"{i1 + n:>3} {j1 + n:>3}   ", ((line, False),)) for n, line in same)
            else:
                pairs = [_compared(*pair) for pair in zip_longest(old[i1:i2], new[j1:j2], fillvalue="")]
                yield from (Line("out", f"{i + 1:>3}     − ", pairs[i - i1][0]) for i in range(i1, i2))
                yield from (Line("in", f"    {j + 1:>3} + ", pairs[j - j1][1]) for j in range(j1, j2))
        end = group[-1][4]
    yield from _gap(len(new) - end)


def _gap(left_out: int) -> Iterator[Line]:
    if left_out:
        yield Line("gap", "  ⋯       ", ((f"{left_out} unchanged", False),))


def _compared(old: str, new: str) -> tuple[Pieces, Pieces]:
    """Two lines in words, those that changed marked; lines that are unlike, or very long, are left whole."""
    whole = ((old, False),), ((new, False),)
    if not old or not new or len(old) + len(new) > 2_000:
        return whole
    a, b = (re.findall(r"\w+|\s+|\W", line) for line in (old, new))
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if (
        len(a) + len(b) > 400
        or matcher.real_quick_ratio() < 0.6
        or matcher.quick_ratio() < 0.6
        or matcher.ratio() < 0.6
    ):
        return whole
    steps = matcher.get_opcodes()
    before = tuple(("".join(a[i:j]), tag != "equal") for tag, i, j, _, _ in steps if i < j)
    return before, tuple(("".join(b[i:j]), tag != "equal") for tag, _, _, i, j in steps if i < j)
