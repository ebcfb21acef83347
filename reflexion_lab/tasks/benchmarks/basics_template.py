"""Templates of `basics` (basics.json), and the random draws of their arguments."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec

from reflexion_lab.errors import DataError

FILE = Path(__file__).with_name("basics.json")
WORDS = (
    *("sun", "red", "box", "ant", "lake", "moon", "bird", "open"),
    *("river", "stone", "apple", "under", "bridge", "silver", "market", "orange"),
    *("picture", "morning", "station", "evening", "mountain", "baseball", "umbrella", "sandwich"),
    *("butterfly", "president"),
)
"""Words of 3 to 9 letters, so that there are words on both sides of every limit in a template."""
Draw = Callable[[dict[str, Any]], Any]
"""Draws a value, given `r` (the random generator), `k` (the constant) and the names assigned before."""


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task without its name, constant and inputs.

    `sentence`, `solution` and `slip` are format strings; `{k}` is the constant, `{k[0]}` one of several.
    """

    theme: str
    level: Literal["easy", "medium", "hard"]
    names: tuple[str, ...]
    """Synonymous names of the function; the first is also the template's name."""
    signature: str
    sentence: str
    solution: tuple[str, ...]
    """Lines of the reference solution, not indented; also the canonical solution."""
    inputs: str
    """Expression of the arguments of one call, see `VOCABULARY`."""
    constants: tuple[int | str | tuple[int | str, ...] | None, ...] = (None,)
    slip: tuple[str, ...] = ()
    """A plausible wrong body, or (); the examples reject it, so that feedback reveals it."""
    note: str = ""
    """Comment for maintainers."""


@cache
def templates() -> tuple[Template, ...]:
    """All templates. A seed's tasks depend on their order and that of their names and constants."""
    return tuple(
        msgspec.convert({"theme": theme, "level": level, **row}, Template)
        for theme, levels in msgspec.json.decode(FILE.read_bytes()).items()
        for level, rows in levels.items()
        for row in rows
    )


def calls(template: Template, k: Any, rng: Random) -> Iterator[tuple[object, ...]]:
    """Endless random arguments of calls."""
    inputs = _draw_of(ast.parse(f"({template.inputs},)", mode="eval").body)
    while True:
        yield inputs({"r": rng, "k": k})


def _draw_of(node: ast.expr) -> Draw:  # noqa: PLR0911 (one return per form)
    """The draw that an expression describes; any other form raises DataError."""
    match node:
        case ast.Constant(value):
            return lambda _: value
        case ast.Name(name):
            return operator.itemgetter(name)
        case ast.NamedExpr(ast.Name(name), value):
            return _naming(name, _draw_of(value))
        case ast.UnaryOp(ast.USub(), operand):
            return _applied(operator.neg, [operand])
        case ast.BinOp(left, sign, right) if type(sign) in SIGNS:
            return _applied(SIGNS[type(sign)], [left, right])
        case ast.Subscript(items, at):
            return _applied(operator.getitem, [items, at])
        case ast.Tuple(parts):
            return _applied(lambda *values: values, parts)
        case ast.Call(ast.Name(word), parts, options) if word in VOCABULARY:
            return _applied(VOCABULARY[word], [ast.Name("r"), *parts], options)
        case ast.ListComp(item, [ast.comprehension(ast.Name(name), items, [])]):
            element, elements = _draw_of(item), _draw_of(items)
            return lambda known: [element({**known, name: value}) for value in elements(known)]
    raise DataError(f"{FILE.name}: `{ast.unparse(node)}` is not allowed in inputs")


def _naming(name: str, draw: Draw) -> Draw:
    def drawn(known: dict[str, Any]) -> Any:
        known[name] = draw(known)
        return known[name]

    return drawn


def _applied(do: Callable[..., Any], parts: Sequence[ast.expr], options: Sequence[ast.keyword] = ()) -> Draw:
    """Draw the parts in order, unpack those with a star, and pass them to `do`."""
    draws = [
        (_draw_of(part.value), True) if isinstance(part, ast.Starred) else (_draw_of(part), False) for part in parts
    ]
    named = {str(option.arg): _draw_of(option.value) for option in options}

    def drawn(known: dict[str, Any]) -> Any:
        values: list[Any] = []
        for draw, spread in draws:
            (values.extend if spread else values.append)(draw(known))
        return do(*values, **{name: draw(known) for name, draw in named.items()})

    return drawn


def _numbers(r: Random, low: int, high: int, fewest: int = 3, most: int = 6) -> list[int]:
    """`fewest` to `most` integers in [low, high]."""
    return [r.randint(low, high) for _ in range(r.randint(fewest, most))]


def _words(r: Random, fewest: int = 2, most: int = 4) -> list[str]:
    """`fewest` to `most` distinct words in lower case."""
    return r.sample(WORDS, r.randint(fewest, most))


def _text(r: Random, fewest: int = 2, most: int = 4) -> str:
    """Words in lower case, separated by spaces."""
    return " ".join(_words(r, fewest, most))


def _capitals(r: Random) -> str:
    """Words in lower case, upper case or title case."""
    return r.choice((str.lower, str.upper, str.title))(_text(r, 1, 3))


def _mirrored(r: Random) -> str:
    """A palindrome, sometimes with an initial capital or a space."""
    half = "".join(r.choices("adelnorst", k=r.randint(2, 4)))
    whole = half + r.choice(("", r.choice("aeiou"))) + half[::-1]
    cut = r.randint(1, len(whole) - 1)
    return r.choice((whole, whole.title(), f"{whole[:cut]} {whole[cut:]}"))


def _quantities(r: Random, low: int, high: int, fewest: int = 2, most: int = 4) -> dict[str, int]:
    """`fewest` to `most` distinct words, each with an integer in [low, high]."""
    return {word: r.randint(low, high) for word in _words(r, fewest, most)}


def _overlapping(r: Random) -> list[dict[str, int]]:
    """Two dictionaries, which usually share a key."""
    known = _words(r, 4, 4)
    parts = known[: r.randint(1, 3)], known[r.randint(1, 2) :]
    return [{key: r.randint(1, 20) for key in part} for part in parts]


def _pairs(r: Random, low: int, high: int, fewest: int = 2, most: int = 4) -> list[tuple[int, int]]:
    """`fewest` to `most` pairs of integers in [low, high]."""
    return [(r.randint(low, high), r.randint(low, high)) for _ in range(r.randint(fewest, most))]


def _often_sorted(r: Random) -> list[int]:
    return sorted(_numbers(r, 1, 15, most=4)) if r.random() < 0.7 else _numbers(r, 1, 9, most=4)


VOCABULARY: dict[str, Callable[..., Any]] = {
    "number": Random.randint,
    "numbers": _numbers,
    "often_sorted": _often_sorted,
    "words": _words,
    "text": _text,
    "capitals": _capitals,
    "mirrored": _mirrored,
    "quantities": _quantities,
    "overlapping": _overlapping,
    "pairs": _pairs,
    "choice": lambda r, *items: r.choice(items),
    "pick": Random.choice,
    "sample": Random.sample,
    "choices": lambda r, items, size: r.choices(items, k=size),
    "maybe_with": lambda r, table, key, value: table | r.choice(({}, {key: value})),
    "range": lambda _, *bounds: range(*bounds),
    "zip": lambda _, *lists: list(zip(*lists, strict=False)),
    "columns": lambda _, rows: [list(column) for column in zip(*rows, strict=True)],
    "table": lambda _, keys, values: dict(zip(keys, values, strict=False)),
    "items": lambda _, table: table.items(),
    "join": lambda _, between, parts: between.join(map(str, parts)),
    "str": lambda _, value: str(value),
    "two_digits": lambda _, n: f"{n:02}",
}
"""Functions of an expression: random draws and conversions; the first argument is the random generator."""
SIGNS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
