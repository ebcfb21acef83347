"""What a result must be like, in words: rules on inputs, results and expected results, never on program texts.

A rule is a sentence that holds for every case that it speaks of. No sentence quotes a program or names a line of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

UNKNOWN: Any = object()
"""A value that is not plain data, or was not recorded in full."""


class Case(NamedTuple):
    """One check of a program: a call of the entry point, and its result."""

    arguments: tuple[Any, ...] | None
    """None if the check does not call the entry point once with literal arguments."""
    expected: Any
    actual: Any
    passed: bool
    error: str = ""
    """Class of an exception, `timeout` or `memory`."""


class Sentence(NamedTuple):
    kind: str
    cause: str
    """What is wrong with the result, as the author of the program."""
    change: str = ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _items(value: Any) -> list[Any]:
    """Items in an order of their own, for comparisons of bags."""
    return sorted(value, key=repr)


def _unique(value: Sequence[Any]) -> list[Any]:
    return [item for number, item in enumerate(value) if item not in value[:number]]


def _is_ascending(value: Any) -> bool:
    return all(first <= second for first, second in pairwise(value))


def _attempted(rule: Callable[..., bool], *values: Any) -> bool:
    """Whether a rule holds; rules do not ask whether their values have the right type."""
    try:
        return bool(rule(*values))
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError):
        return False


def _same(first: Any, second: Any) -> bool:
    return type(first) is type(second) and bool(first == second)


VAGUE = ("items", "part of the items", "values", "too large", "too small", "too long", "too short")
"""Kinds that say in which direction the result is wrong, or where, and not how to compute it."""
Relation = tuple[str, Callable[[Any, Any], bool], str, str]
"""Name, rule on the actual and the expected result, cause and change."""

RELATIONS: tuple[Relation, ...] = (
    (
        "reversed",
        lambda got, due: len(due) > 1 and got == due[::-1],
        "my result has the right items in reverse order",
        "return it the other way round",
    ),
    (
        "descending",
        lambda got, due: type(got) is type(due) and _items(got) == _items(due) and _is_ascending(due[::-1]),
        "my result has the right items, but not from the largest to the smallest",
        "sort the result in descending order",
    ),
    (
        "ascending",
        lambda got, due: type(got) is type(due) and _items(got) == _items(due) and _is_ascending(due),
        "my result has the right items, but not in ascending order",
        "sort the result in ascending order",
    ),
    (
        "order",
        lambda got, due: type(got) is type(due) and _items(got) == _items(due),
        "my result has the right items in the wrong order",
        "keep the items and change their order",
    ),
    (
        "no for yes",
        lambda got, due: got is False and due is True,
        "my result is False where it must be True",
        "loosen the condition, so that it also holds there",
    ),
    (
        "yes for no",
        lambda got, due: got is True and due is False,
        "my result is True where it must be False",
        "tighten the condition, so that it does not hold there",
    ),
    (
        "negated truth",
        lambda got, due: got is (not due),
        "my result says yes for no, or no for yes",
        "turn the answer round",
    ),
    (
        "truth value",
        lambda got, due: isinstance(due, bool) != isinstance(got, bool) and bool(got) == due,
        "my result stands for the right answer, but is no truth value",
        "return True or False",
    ),
    (
        "number in text",
        lambda got, due: isinstance(got, str) and _is_number(due) and float(got) == due,
        "my result is the right number as a text",
        "return a number",
    ),
    (
        "text of value",
        lambda got, due: isinstance(due, str) and not isinstance(got, str) and str(got) == due,
        "my result is the right value, but not as a text",
        "return it as a string",
    ),
    (
        "whole number",
        lambda got, due: (
            isinstance(due, int) and isinstance(got, float) and math.isclose(round(got), due) and got != due
        ),
        "my result is a fraction near the right whole number",
        "round the result to a whole number",
    ),
    (
        "rounded",
        lambda got, due: (
            isinstance(due, float)
            and _is_number(got)
            and round(due) == round(got)
            and got != due
            and abs(got - due) < 1
        ),
        "my result is near the right number, but rounded or computed too coarsely",
        "keep the digits after the point as the task asks for them",
    ),
    (
        "sign",
        lambda got, due: _is_number(due) and got == -due and due != 0,
        "my result has the wrong sign",
        "change the sign of the result",
    ),
    (
        "type",
        lambda got, due: _is_list(got) and _is_list(due) and type(got) is not type(due) and list(got) == list(due),
        "my result has the right items in the wrong kind of sequence",
        "return a list instead of a tuple, or the other way round",
    ),
    (
        "joined",
        lambda got, due: isinstance(due, str) and _is_list(got) and "".join(map(str, got)) == "".join(due.split()),
        "my result is a list of the right parts, not a text",
        "join the parts to one string",
    ),
    (
        "split",
        lambda got, due: isinstance(got, str) and _is_list(due) and "".join(map(str, due)) == "".join(got.split()),
        "my result is one text of the right parts, not a list",
        "return the parts as items of a list",
    ),
    (
        "wrapped",
        lambda got, due: _is_list(due) and len(due) == 1 and due[0] == got,
        "my result is the right value, but not within a list",
        "put the value into a list",
    ),
    (
        "unwrapped",
        lambda got, due: _is_list(got) and len(got) == 1 and got[0] == due,
        "my result is the right value within a list",
        "return the value itself",
    ),
    (
        "case",
        lambda got, due: got != due and got.casefold() == due.casefold(),
        "my result differs in upper and lower case alone",
        "use the case that the task asks for",
    ),
    (
        "spaces",
        lambda got, due: got != due and "".join(got.split()) == "".join(due.split()),
        "my result differs in spaces alone",
        "put spaces where the task has them",
    ),
    (
        "signs",
        lambda got, due: got != due and [c for c in got if c.isalnum()] == [c for c in due if c.isalnum()],
        "my result differs in punctuation alone",
        "separate the parts as the task does",
    ),
    (
        "lower items",
        lambda got, due: [item.casefold() for item in got] == [item.casefold() for item in due],
        "the items of my result differ in upper and lower case alone",
        "use the case that the task asks for",
    ),
    (
        "empty",
        lambda got, due: hasattr(got, "__len__") and not got and len(due) > 0,
        "my result is empty where items are due",
        "put the items that belong there into the result",
    ),
    (
        "should be empty",
        lambda got, due: hasattr(due, "__len__") and not due and len(got) > 0,
        "my result has items where it must be empty",
        "return it empty there",
    ),
    (
        "duplicates",
        lambda got, due: _is_list(due) and len(got) > len(due) and _items(_unique(got)) == _items(due),
        "my result has items more than once",
        "remove the duplicates",
    ),
    (
        "lost duplicates",
        lambda got, due: _is_list(due) and len(got) < len(due) and _items(got) == _items(_unique(due)),
        "my result has every item once where some are due several times",
        "keep the duplicates",
    ),
    (
        "without the first",
        lambda got, due: len(due) > 0 and got == due[1:],
        "my result lacks its first item",
        "add the first item",
    ),
    (
        "without the last",
        lambda got, due: len(due) > 0 and got == due[:-1],
        "my result lacks its last item",
        "add the last item",
    ),
    (
        "one more at the start",
        lambda got, due: len(got) > 0 and got[1:] == due,
        "my result has one item too many at its start",
        "leave the first item out",
    ),
    (
        "one more at the end",
        lambda got, due: len(got) > 0 and got[:-1] == due,
        "my result has one item too many at its end",
        "leave the last item out",
    ),
    (
        "prefix",
        lambda got, due: len(got) < len(due) and due[: len(got)] == got,
        "my result ends too early",
        "add what must follow it",
    ),
    (
        "begun",
        lambda got, due: len(got) > len(due) and got[: len(due)] == due,
        "my result goes on too long",
        "stop where the task says",
    ),
    (
        "suffix",
        lambda got, due: len(got) < len(due) and due[-len(got) :] == got,
        "my result begins too late",
        "add what must precede it",
    ),
    (
        "missing items",
        lambda got, due: _is_list(due) and len(got) < len(due) and all(got.count(i) <= due.count(i) for i in got),
        "my result lacks some items; the ones that it has are right",
        "add the items that I leave out",
    ),
    (
        "further items",
        lambda got, due: _is_list(due) and len(got) > len(due) and all(due.count(i) <= got.count(i) for i in due),
        "my result has all right items and others besides",
        "leave out the items that do not belong there",
    ),
    (
        "missing keys",
        lambda got, due: isinstance(due, dict) and got.items() < due.items(),
        "my result lacks some keys; the ones that it has are right",
        "add the keys that I leave out",
    ),
    (
        "further keys",
        lambda got, due: isinstance(due, dict) and due.items() < got.items(),
        "my result has all right keys and others besides",
        "leave out the keys that do not belong there",
    ),
    (
        "values",
        lambda got, due: isinstance(due, dict) and got.keys() == due.keys(),
        "my result has the right keys with wrong values",
        "compute the value of each key as the task says",
    ),
    (
        "part of the items",
        lambda got, due: _is_list(due) and len(got) == len(due) and sum(map(_same, got, due)) * 2 > len(due),
        "most items of my result are right, and some are wrong",
        "change the rule for those items alone",
    ),
    (
        "items",
        lambda got, due: _is_list(due) and _is_list(got) and len(got) == len(due) and len(due) > 1,
        "my result has the right length with wrong items",
        "compute the items by another rule",
    ),
    ("missing result", lambda got, due: got is None, "my program returns None", "return the result"),
    (
        "superfluous result",
        lambda got, due: due is None,
        "my program returns a value where None is due",
        "return None there",
    ),
    ("too large", lambda got, due: _is_number(due) and got > due, "my result is too large", "count or add less"),
    ("too small", lambda got, due: _is_number(due) and got < due, "my result is too small", "count or add more"),
    (
        "too long",
        lambda got, due: type(got) is type(due) and len(got) > len(due),
        "my result is too long",
        "leave out what does not belong there",
    ),
    (
        "too short",
        lambda got, due: type(got) is type(due) and len(got) < len(due),
        "my result is too short",
        "add what is missing",
    ),
)
"""From the most specific to the least: of several that hold, the first is the cause."""

Goal = tuple[str, Callable[..., Any], str]
GOALS: tuple[Goal, ...] = (
    ("reversed input", lambda first, *_: first[::-1], "return the input in reverse order"),
    ("sorted input", lambda first, *_: sorted(first), "return the items of the input in ascending order"),
    (
        "input, descending",
        lambda first, *_: sorted(first, reverse=True),
        "return the items of the input in descending order",
    ),
    (
        "unique input",
        lambda first, *_: _unique(first),
        "return the items of the input without repetitions, in their order",
    ),
    (
        "unique and sorted",
        lambda first, *_: sorted(set(first)),
        "return the different items of the input in ascending order",
    ),
    ("once", lambda first, *_: [item for item in first if first.count(item) == 1], "return the items that occur once"),
    ("length", lambda first, *_: len(first), "return the number of items of the input"),
    ("distinct", lambda first, *_: len(set(first)), "return the number of different items of the input"),
    ("sum", lambda first, *_: sum(first), "return the sum of the input"),
    ("product", lambda first, *_: math.prod(first), "return the product of the input"),
    ("largest", lambda first, *_: max(first), "return the largest item of the input"),
    ("smallest", lambda first, *_: min(first), "return the smallest item of the input"),
    ("range", lambda first, *_: max(first) - min(first), "return the largest item less the smallest one"),
    ("mean", lambda first, *_: sum(first) / len(first), "return the mean of the input"),
    ("upper", lambda first, *_: first.upper(), "return the input in upper case"),
    ("lower", lambda first, *_: first.lower(), "return the input in lower case"),
    ("swapped case", lambda first, *_: first.swapcase(), "swap upper and lower case in the input"),
    ("title", lambda first, *_: first.title(), "begin each word of the input with a capital"),
    ("words", lambda first, *_: first.split(), "return the words of the input as a list"),
    ("squares", lambda first, *_: [item**2 for item in first], "return the squares of the input"),
    ("doubles", lambda first, *_: [2 * item for item in first], "double every item of the input"),
    ("plus one", lambda first, *_: [item + 1 for item in first], "add one to every item of the input"),
    (
        "even items",
        lambda first, *_: [item for item in first if item % 2 == 0],
        "keep the even items of the input alone",
    ),
    ("odd items", lambda first, *_: [item for item in first if item % 2], "keep the odd items of the input alone"),
    (
        "positive items",
        lambda first, *_: [item for item in first if item > 0],
        "keep the positive items of the input alone",
    ),
    (
        "negative items",
        lambda first, *_: [item for item in first if item < 0],
        "keep the negative items of the input alone",
    ),
    ("without the first", lambda first, *_: first[1:], "return the input without its first item"),
    ("without the last", lambda first, *_: first[:-1], "return the input without its last item"),
    (
        "running sum",
        lambda first, *_: [sum(first[: n + 1]) for n in range(len(first))],
        "return the running sums of the input",
    ),
    (
        "running maximum",
        lambda first, *_: [max(first[: n + 1]) for n in range(len(first))],
        "return the running maxima of the input",
    ),
    ("palindrome", lambda first, *_: first == first[::-1], "say whether the input reads the same in both directions"),
    ("is sorted", lambda first, *_: _is_ascending(first), "say whether the input is in ascending order"),
    ("even", lambda first, *_: first % 2 == 0, "say whether the input is even"),
    ("absolute", lambda first, *_: abs(first), "return the absolute value of the input"),
    ("sum of two", lambda first, second, *_: first + second, "return the sum of the two inputs"),
    ("difference", lambda first, second, *_: first - second, "return the first input less the second"),
    ("times", lambda first, second, *_: first * second, "return the product of the two inputs"),
    ("remainder", lambda first, second, *_: first % second, "return the remainder of the first input by the second"),
    ("larger of two", lambda first, second, *_: max(first, second), "return the larger of the two inputs"),
    ("smaller of two", lambda first, second, *_: min(first, second), "return the smaller of the two inputs"),
    (
        "in common",
        lambda first, second, *_: sorted(set(first) & set(second)),
        "return the items that both inputs have, in order",
    ),
    ("unchanged", lambda first, *_: first, "return the input unchanged"),
)
"""The expected result as a function of the arguments."""

Condition = tuple[str, Callable[..., bool]]
CONDITIONS: tuple[Condition, ...] = (
    ("where the input is empty", lambda *a: not a[0] and hasattr(a[0], "__len__")),
    ("where the input is not empty", lambda *a: len(a[0]) > 0),
    ("where the input has one item", lambda *a: len(a[0]) == 1),
    ("where the input has more than one item", lambda *a: len(a[0]) > 1),
    ("where the input has an even number of items", lambda *a: len(a[0]) % 2 == 0),
    ("where the input has an odd number of items", lambda *a: len(a[0]) % 2 == 1),
    ("where the input has repeated items", lambda *a: len(_unique(a[0])) < len(a[0])),
    ("where the input has no repeated items", lambda *a: len(_unique(a[0])) == len(a[0])),
    ("where the input has negative numbers", lambda *a: any(item < 0 for item in a[0])),
    ("where the input has no negative numbers", lambda *a: all(item >= 0 for item in a[0])),
    ("where the input has a zero", lambda *a: any(_is_number(item) and item == 0 for item in a[0])),
    ("where the input has upper-case letters", lambda *a: a[0] != a[0].lower()),
    ("where the input has spaces", lambda *a: " " in a[0]),
    ("where the input is in ascending order", lambda *a: _is_ascending(a[0]) and len(a[0]) > 1),
    ("where the input is zero", lambda *a: _is_number(a[0]) and a[0] == 0),
    ("where the input is negative", lambda *a: a[0] < 0),
    ("where the input is positive", lambda *a: a[0] > 0),
    ("where the input is even", lambda *a: a[0] % 2 == 0),
    ("where the input is odd", lambda *a: a[0] % 2 == 1),
    ("where the input is one or less", lambda *a: a[0] <= 1),
    ("where the first input is larger than the second", lambda *a: a[0] > a[1]),
    ("where the first input is smaller than the second", lambda *a: a[0] < a[1]),
    ("where both inputs are equal", lambda *a: a[0] == a[1]),
    ("where the second input is zero", lambda *a: _is_number(a[1]) and a[1] == 0),
    ("where the second input is one", lambda *a: _is_number(a[1]) and a[1] == 1),
    ("where the inputs have different lengths", lambda *a: len(a[0]) != len(a[1])),
)
"""Inputs that may set failing cases apart from passing ones."""

RATIOS = {
    2: "twice",
    0.5: "half of",
    10: "ten times",
    0.1: "a tenth of",
    100: "a hundred times",
    0.01: "a hundredth of",
}
ERRORS = {
    "timeout": ("my program does not end in time", "make sure that every loop ends, and do less work"),
    "memory": ("my program needs too much memory", "build no lists or numbers that large"),
    "IndexError": ("my program reads an item beyond the end of a sequence", "stay within the length of the sequence"),
    "KeyError": ("my program reads a key that is not there", "handle keys that are missing"),
    "ZeroDivisionError": ("my program divides by zero", "handle a divisor of zero before dividing"),
    "RecursionError": ("my function calls itself without end", "add the case in which it returns at once"),
    "NameError": ("my program uses a name that it never defines", "define or import every name that I use"),
    "UnboundLocalError": ("my program uses a name before it has a value", "give the name a value first"),
    "ValueError": ("my program passes on a value that cannot be converted or found", "handle that value first"),
    "TypeError": ("my program combines values of types that do not fit", "convert the values, or handle None, first"),
    "AttributeError": ("my program uses a method that the value does not have", "use a method of the value's type"),
    "SyntaxError": ("my program is no valid Python", "write the whole function again, in valid Python"),
    "IndentationError": ("my program is no valid Python", "write the whole function again, in valid Python"),
}
"""Cause and change by class of exception."""


def sentences(cases: Sequence[Case], is_printed: bool = False) -> Iterator[Sentence]:
    """True sentences on the failing cases, the most telling first; the goal last. `is_printed`: the program prints."""
    failing = [case for case in cases if not case.passed]
    yield from _errors(failing)
    known = [case for case in failing if not case.error and UNKNOWN not in (case.actual, case.expected)]
    if known and len(known) == sum(not case.error for case in failing):
        yield from _of_results(known, cases, is_printed)
    yield from _goals(cases)


def _errors(failing: Sequence[Case]) -> Iterator[Sentence]:
    errors = {case.error for case in failing if case.error}
    if len(errors) == 1:
        cause, change = ERRORS.get(error := errors.pop(), (f"my program raises {error}", "handle that case first"))
        yield Sentence(f"raises {error}", cause, change)


def _of_results(known: Sequence[Case], cases: Sequence[Case], is_printed: bool) -> Iterator[Sentence]:
    if is_printed and all(case.actual is None for case in known):
        yield Sentence("prints", "my program prints its result and returns nothing", "return the result, print nothing")
    yield from _numbers(known)
    relations = [
        Sentence(kind, cause, change)
        for kind, rule, cause, change in RELATIONS
        if all(_attempted(rule, case.actual, case.expected) for case in known)
    ]
    yield from (sentence for sentence in relations if sentence.kind not in VAGUE)
    results = [case.actual if not case.passed else case.expected for case in cases]
    is_unchanged = all(case.arguments and _same(case.actual, case.arguments[0]) for case in known)
    if is_unchanged and len(known) > 1:
        yield Sentence("unchanged", "my program returns its input unchanged", "change it as the task says")
    is_constant = len(known) > 1 and all(_same(result, results[0]) for result in results)
    if is_constant and results[0] is not None:
        yield Sentence("constant", "my program returns the same value for every input", "compute it from the input")
    yield from (sentence for sentence in relations if sentence.kind in VAGUE)


def _numbers(known: Sequence[Case]) -> Iterator[Sentence]:
    """Numbers that differ by the same amount or factor, also item by item."""
    pairs = []
    for case in known:
        got, due = case.actual, case.expected
        both = (
            list(zip(got, due, strict=True))
            if _is_list(got) and _is_list(due) and len(got) == len(due)
            else [(got, due)]
        )
        if not all(_is_number(value) for pair in both for value in pair):
            return
        pairs += both
    where = "" if all(_is_number(case.actual) for case in known) else "every item of "
    gaps = {round(got - due, 9) for got, due in pairs}
    if len(gaps) == 1 and abs(gap := gaps.pop()) in (1, 2) and len(pairs) > 1 - (abs(gap) == 1):
        size = {1: "one", 2: "two"}[int(abs(gap))]
        much, how = ("large", "subtract") if gap > 0 else ("small", "add")
        yield Sentence(
            "off by", f"{where}my result is {size} too {much}", f"{how} {size}, or move a boundary by {size}"
        )
    ratios = {round(got / due, 9) for got, due in pairs if due}
    is_factor = len({due for _, due in pairs}) > 1 and all(due or not got for got, due in pairs)
    if is_factor and len(ratios) == 1 and (ratio := ratios.pop()) in RATIOS:
        yield Sentence("factor", f"{where}my result is {RATIOS[ratio]} what it must be", "leave out that factor")


def _goals(cases: Sequence[Case]) -> Iterator[Sentence]:
    """The result as a simple function of the input, if that holds for every case, of which three or more differ."""
    known = [case for case in cases if case.arguments and case.expected is not UNKNOWN]
    if len({repr(case.expected) for case in known}) < 3 or len(known) < len(cases) / 2:
        return
    for kind, rule, change in GOALS:
        if all(_attempted(lambda case=case, rule=rule: rule(*case.arguments) == case.expected) for case in known):
            yield Sentence(f"goal: {kind}", "", change)
            return


def condition(cases: Sequence[Case]) -> str:
    """The inputs at which the program fails, such as `where the input is empty`; "" if no rule sets them apart."""
    if any(case.arguments is None for case in cases) or all(not case.passed for case in cases):
        return ""
    for words, rule in CONDITIONS:
        if all(_attempted(rule, *case.arguments or ()) != case.passed for case in cases):
            return words
    return ""


def requirement(cases: Sequence[Case]) -> str:
    """What every result must be like, by the expected ones: the fallback where no rule compares results."""
    results = [case.expected for case in cases if case.expected is not UNKNOWN]
    kinds = {type(result).__name__ for result in results}
    names = {"bool": "True or False", "int": "a whole number", "float": "a number", "str": "a string"}
    has_none = "NoneType" in kinds
    kinds -= {"NoneType"}
    kind = names.get(name := "".join(kinds), f"a {name}") if len(kinds) == 1 else "what the task describes"
    if results and kinds <= {"list", "tuple"} and any(len(result) > 1 for result in results):
        if all(_attempted(_is_ascending, result) for result in results):
            kind += " in ascending order"
        elif all(_attempted(_is_ascending, result[::-1]) for result in results):
            kind += " in descending order"
    return f"the result must be {kind}{' or None' * has_none}"
