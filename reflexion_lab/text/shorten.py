"""Shortened texts, counts in words, and an estimate of a text's tokens."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from itertools import accumulate


def cut(text: str, chars: int, mark: str = "…") -> str:
    """The first `chars` characters; a shortened text ends in `mark`."""
    if len(text) <= chars:
        return text
    start = text[: max(chars - len(mark), 0)]
    return ((start.rstrip() if mark.startswith(" ") else start) + mark)[: max(chars, 0)]


def line(text: str, chars: int, mark: str = "…") -> str:
    """`text` on one line, cut to `chars` characters."""
    return cut(" ".join(text.split()), chars, mark)


def number_of(n: int, noun: str) -> str:
    """`1 task`, `2 tasks`, `1,204 tasks`."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def percent(share: float) -> int:
    """`share` of 1 in percent, halves rounded up."""
    return math.floor(round(100 * share, 6) + 0.5)  # 100 * 0.285 is 28.499999999999996


def bounded(text: str, chars: int) -> str:
    """At most `chars` characters: the two ends of `text` with "…" between them."""
    if len(text) <= chars:
        return text
    head = (chars - 1) // 2
    return text[:head] + "…" + text[len(text) - (chars - 1 - head) :]


_PIECES = re.compile(
    r"""\ ?(?:[A-Z]?[a-z]+ | [A-Z]+)
    | \ (?=[\d\x80-\U0010ffff]) | \ (?=\s)\ {,31} | \n{1,4}\ {,32} | \t{1,4} | [^\S\ \n\t]
    | [^\sA-Za-z]""",
    re.VERBOSE,
)
_BLOCKS = re.compile(r"(?<=\n)(?=\S)")
"""Where no piece goes on: before a line that is not indented."""
LONG = 12
"""Letters of the longest word that vocabularies usually contain."""


@functools.lru_cache(1024)  # a prompt is estimated when it is fitted and answered, and later prompts share blocks
def estimated(text: str) -> int:
    """Upper estimate of the number of tokens: a word counts one per four letters, rounded up (two if it is long or in
    capitals), an indentation one, any other character its UTF-8 bytes, beyond ASCII one less. Random letters and rare
    characters can have more tokens. SmolLM2 has 1.5 per character of Chinese, which counts 2; larger models below 1.

    None of 9,000 recorded prompts, programs, feedbacks, reflections has more by SmolLM2's tokenizer; median ratio 1.3.
    """
    blocks = _BLOCKS.split(text)
    return sum(map(estimated, blocks) if len(blocks) > 1 else map(_tokens, _PIECES.findall(text)))


@functools.lru_cache(4096)  # few pieces are distinct, and every attempt's prompt is estimated
def _tokens(piece: str) -> int:
    if piece.isspace():
        return 1
    piece = piece.lstrip(" ")
    if "a" <= piece[-1] <= "z":
        return -(-len(piece) // (4 if len(piece) <= LONG else 2))
    if "A" <= piece[-1] <= "Z":
        return -(-len(piece) // 2)
    return max(len(piece.encode(errors="replace")) - 1, 1)


def filled(sizes: Sequence[int], budget: float, measured: Callable[[Sequence[int]], int] | None = None) -> list[int]:
    """Numbers of the parts that fit into `budget` tokens, packed from the first; a part that does not fit is skipped,
    and later ones of its size or more with it.

    `sizes`: tokens of each part alone, or less. `measured`: tokens of several parts with what stands around them; by
    default their sum. It is called a few times for each run of parts that fit, not for each part.
    """
    measured = measured or (lambda numbers: sum(sizes[number] for number in numbers))
    chosen: list[int] = []
    room, rest = budget - measured(chosen), list(range(len(sizes)))
    while room >= 0 and rest:
        run = [number for number in rest if sizes[number] <= room]
        fit, most = 0, sum(size <= room for size in accumulate(sizes[number] for number in run))
        while fit < most:
            middle = (fit + most + 1) // 2
            left = budget - measured([*chosen, *run[:middle]])
            fit, most, room = (middle, most, left) if left >= 0 else (fit, middle - 1, room)
        chosen += run[:fit]
        skipped = sizes[run[fit]] if fit < len(run) else 0
        rest = [number for number in run[fit + 1 :] if not skipped or sizes[number] < skipped]
    return chosen
