"""What a template of `basics` is, and the draws that its inputs are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Literal, NamedTuple

WORDS = (
    *("sun", "red", "box", "ant", "lake", "moon", "bird", "open"),
    *("river", "stone", "apple", "under", "bridge", "silver", "market", "orange"),
    *("picture", "morning", "station", "evening", "mountain", "baseball", "umbrella", "sandwich"),
    *("butterfly", "president"),
)
"""Lengths 3 to 9, so that every limit a template names has words on both of its sides."""


class Template(NamedTuple):
    """A task but for its name, its constant and its inputs.

    `sentence`, `body` and `slip` are format strings; `{k}` is the constant, `{k[0]}` one of a pair.
    """

    level: Literal["easy", "medium", "hard"]
    names: tuple[str, ...]
    """Synonyms for the function; the first also names the template."""
    signature: str
    sentence: str
    body: str
    """The trusted reference, which is also the canonical solution; not indented."""
    inputs: Callable[[Random, Any], tuple[object, ...]]
    """Draws the arguments of one call, given the constant."""
    constants: Sequence[Any] = (None,)
    slip: str = ""
    """A plausible wrong body, "" for none; the examples reject it, so that feedback can mend it."""


def numbers(r: Random, low: int, high: int, *, fewest: int = 3, most: int = 6) -> list[int]:
    """`fewest` to `most` whole numbers in [low, high]."""
    return [r.randint(low, high) for _ in range(r.randint(fewest, most))]


def words(r: Random, fewest: int = 2, most: int = 4) -> list[str]:
    """`fewest` to `most` different words in lower case."""
    return r.sample(WORDS, r.randint(fewest, most))


def text(r: Random, fewest: int = 2, most: int = 4) -> str:
    """Words in lower case, with single spaces between them."""
    return " ".join(words(r, fewest, most))


def capitals(r: Random) -> str:
    """Words in lower case, upper case, or with a capital each."""
    return r.choice((str.lower, str.upper, str.title))(text(r, 1, 3))


def mirrored(r: Random) -> str:
    """Letters that read the same both ways, but for spaces and a capital at the front."""
    half = "".join(r.choices("adelnorst", k=r.randint(2, 4)))
    whole = half + r.choice(("", r.choice("aeiou"))) + half[::-1]
    cut = r.randint(1, len(whole) - 1)
    return r.choice((whole, whole.title(), f"{whole[:cut]} {whole[cut:]}"))


def quantities(r: Random, low: int, high: int, *, fewest: int = 2, most: int = 4) -> dict[str, int]:
    """`fewest` to `most` different words, each with a whole number in [low, high]."""
    return {word: r.randint(low, high) for word in words(r, fewest, most)}


def pairs(r: Random, low: int, high: int, *, fewest: int = 2, most: int = 4) -> list[tuple[int, int]]:
    """`fewest` to `most` pairs of whole numbers in [low, high]."""
    return [(r.randint(low, high), r.randint(low, high)) for _ in range(r.randint(fewest, most))]
