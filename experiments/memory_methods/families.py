"""`families`: a generated stream of tasks in families, each with a rule that only its first task states.

A family has an invented term, such as "zornab rank", and a rule: one sentence that defines the term. The first task of
a family states the rule and asks for its function. Every later one uses the term without a definition, so that only
memory of earlier tasks makes it solvable. In the naive stream every prompt states the rule, so that memory adds
nothing; ids, order, tests and solutions are those of the compositional one.

Hidden tests reject guesses without the rule (`GUESSES`), but for 6 of 10,800 in 2,700 tasks of 300 families. A slightly
wrong constant may pass questions about order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import chain, count
from math import isqrt
from random import Random
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Tasks, validated
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.basics import Template, pool, select_cases, task_of

Stream = Literal["compositional", "naive"]
Families = Annotated[int, Meta(ge=1, le=1000)]
"""Their calls are drawn for 0.1 s each."""
LETTERS = ("bdfgklmpvz", "aeiou", ("rn", "lv", "mp", "zz", "rv", "nd", "lt", "sk"), "aeiou", "bkmnxd")
"""Parts of an invented word."""
NOUNS = ("grade", "level", "rank", "score", "value", "weight")
TYPES = {"word": "str", "number": "int"}
INPUTS = {"word": "words({}, {})", "number": "numbers(1, 999, {}, {})"}
GUESSES = {
    "word": ("len(word)", "len(set(word))", "sum(letter in 'aeiou' for letter in word)", "ord(word[0])"),
    "number": ("number", "sum(map(int, str(number)))", "max(map(int, str(number)))", "number % 10"),
}
"""Values that a solver without the rule may try."""
MARKS = re.compile(r"^[\s#>]+", re.MULTILINE)
"""Marks of comments and quotations."""


class Definition(NamedTuple):
    """Definition of a term, with two constants."""

    thing: Literal["word", "number"]
    text: str
    value: str
    """Python expression of the `thing`."""


class Question(NamedTuple):
    """A later task of a family, as format strings of its `name`, `term` and `thing`."""

    function: str
    result: str
    sentence: str
    value: str
    """Python expression of `{thing}s`."""
    sizes: tuple[int, int] = (3, 5)
    """Least and most items of the list."""


DEFINITIONS = (
    Definition(
        "word",
        "{a} times its length plus {b} times its number of vowels",
        "{a} * len(word) + {b} * sum(letter in 'aeiou' for letter in word)",
    ),
    Definition(
        "word",
        "{a} times its number of different letters plus {b} times its length",
        "{a} * len(set(word)) + {b} * len(word)",
    ),
    Definition(
        "word",
        "{a} times the place of its first letter in the alphabet plus {b} times its number of vowels",
        "{a} * (ord(word[0]) - 96) + {b} * sum(letter in 'aeiou' for letter in word)",
    ),
    Definition(
        "number",
        "{a} times the sum of its digits plus {b} times its last digit",
        "{a} * sum(map(int, str(number))) + {b} * (number % 10)",
    ),
    Definition(
        "number",
        "{a} times its largest digit plus {b} times its smallest digit",
        "{a} * max(map(int, str(number))) + {b} * min(map(int, str(number)))",
    ),
    Definition(
        "number",
        "{a} times its first digit plus its remainder after division by {b}",
        "{a} * int(str(number)[0]) + number % {b}",
    ),
)
QUESTIONS = (
    Question("total_{name}", "int", "The sum of the {term}s of a list of {thing}s.", "sum(map({name}, {thing}s))"),
    Question(
        "largest_{name}",
        "{type}",
        "The {thing} of a list with the largest {term}, the first one of several.",
        "max({thing}s, key={name})",
    ),
    Question(
        "smallest_{name}",
        "{type}",
        "The {thing} of a list with the smallest {term}, the first one of several.",
        "min({thing}s, key={name})",
    ),
    Question(
        "by_{name}",
        "list[{type}]",
        "The {thing}s of a list sorted by {term}, the smallest first; equal ones keep their order.",
        "sorted({thing}s, key={name})",
    ),
    Question(
        "range_of_{name}",
        "int",
        "The largest {term} of a list of {thing}s minus the smallest.",
        "max(map({name}, {thing}s)) - min(map({name}, {thing}s))",
    ),
    Question(
        "above_first_{name}",
        "list[{type}]",
        "The {thing}s of a list that have a larger {term} than its first one, in their order.",
        "[item for item in {thing}s if {name}(item) > {name}({thing}s[0])]",
    ),
    Question(
        "top_two_{name}",
        "int",
        "The sum of the two largest {term}s of a list of {thing}s.",
        "sum(sorted(map({name}, {thing}s))[-2:])",
    ),
    Question(
        "rising_{name}",
        "bool",
        "Whether each {thing} of a list has a larger {term} than the one before it.",
        "all({name}(first) < {name}(second) for first, second in zip({thing}s, {thing}s[1:]))",
        sizes=(2, 3),
    ),
)


class Family(NamedTuple):
    """An invented term with its definition and constants."""

    term: str
    definition: Definition
    a: int
    b: int

    @property
    def name(self) -> str:
        """Name of the term's function."""
        return self.term.replace(" ", "_")

    @property
    def rule(self) -> str:
        return _rule(self.term, self.definition, self.a, self.b)

    @property
    def value(self) -> str:
        """Python expression of the definition."""
        return self.definition.value.format(a=self.a, b=self.b)


def _rule(term: str, definition: Definition, a: object, b: object) -> str:
    return f"The {term} of a {definition.thing} is {definition.text.format(a=a, b=b)}."


RULE = re.compile(
    "|".join(_rule(rf"[a-z]+ (?:{'|'.join(NOUNS)})", each, r"\d+", r"\d+")[:-1] + r"\." for each in DEFINITIONS)
)


@validated
def families(seed: int = 0, n: Tasks = 40, families: Families = 8, stream: Stream = "compositional") -> list[Task]:
    """Draw `n` tasks of this many `families`, of equal size up to one task, in an order drawn by seed.

    Tags are `families`, `first` or `later`, and the kind of argument; the cluster is the family. A selection of tasks
    may lack the first one of a family.

    Raises
    ------
    ConfigError
        `n` or `families` is out of its limits, or there are more families than tasks.
    """
    if families > n:
        raise ConfigError("families.families", families, f"at most n, which is {n}")
    return list(_drawn(seed, n, families, stream))


def rule_of(task: Task) -> str:
    """The rule of the task's family, from its solution or, for a public task, its prompt; "" if they state none."""
    return next(iter(rules_in(task.canonical_solution or task.prompt)), "")


def rules_in(text: str) -> list[str]:
    """Distinct rules of families that a text states word for word, in order. White space and marks of comments and
    quotations do not matter.
    """
    return list(dict.fromkeys(RULE.findall(" ".join(MARKS.sub("", text).split()))))


def changed(rule: str, draw: Random) -> str:
    """A wrong rule for the same term: `rule` with another first constant."""
    return re.sub(r"\d+", lambda constant: str(int(constant[0]) + draw.randint(1, 9)), rule, count=1)


@lru_cache(maxsize=8)
def _drawn(seed: int, n: int, size: int, stream: Stream) -> tuple[Task, ...]:
    """Cached, because the runs of a sweep draw the same tasks."""
    drawn = [_tasks(family, seed, stream) for family in _families(seed, size)]
    order = [number % size for number in range(n)]
    Random(f"{seed}:order").shuffle(order)
    return tuple(next(drawn[at]) for at in order)


def _families(seed: int, size: int) -> list[Family]:
    """Families with terms and rules that all differ."""
    rng = Random(f"{seed}:families")
    most = 10 + isqrt(size)  # of these constants there are more pairs than families
    by_word: dict[str, Family] = {}
    rules: set[tuple[object, ...]] = set()
    while len(by_word) < size:
        word = "".join(map(rng.choice, LETTERS))
        definition, (a, b) = rng.choice(DEFINITIONS), rng.sample(range(2, most), 2)
        if word not in by_word and (definition, a, b) not in rules:
            rules.add((definition, a, b))
            by_word[word] = Family(f"{word} {rng.choice(NOUNS)}", definition, a, b)
    return list(by_word.values())


def _tasks(family: Family, seed: int, stream: Stream) -> Iterator[Task]:
    """The first task of a family, then every question about its term in turn, again and again with other calls."""
    questions = Random(f"{seed}:{family.name}:questions").sample(QUESTIONS, len(QUESTIONS))
    templates = [_first(family), *(_later(family, question, stream) for question in questions)]
    cases = cache(lambda at: pool(templates[at], family.value, Random(f"{seed}:{templates[at].names[0]}:calls")))
    later = ((at, again) for again in count(1) for at in range(1, len(templates)))
    for place, (at, again) in enumerate(chain([(0, 1)], later)):
        template = templates[at]
        name = template.names[0] + f"_{again}" * (again > 1)
        task = task_of(template, place, name, family.value, *select_cases(cases(at), Random(f"{seed}:{name}")))
        *helper, answer = (line.format(k=family.value) for line in template.solution)
        functions = ["\n".join(helper), f"def {name}{template.signature}:\n    {answer}\n"]
        yield replace(
            task,
            task_id=f"families/{family.name}/{place}",
            canonical_solution=f"# {family.rule}\n" + "\n\n\n".join(filter(None, functions)),
            tags=("families", "later" if at else "first", family.definition.thing),
            cluster=f"families/{family.name}",
        )


def _first(family: Family) -> Template:
    thing = family.definition.thing
    return Template(
        theme="families",
        level="easy",
        names=(family.name,),
        signature=f"({thing}: {TYPES[thing]}) -> int",
        sentence=family.rule,
        solution=("return {k}",),
        inputs=f"*{INPUTS[thing].format(1, 1)}",
        constants=(family.value,),
    )


def _later(family: Family, question: Question, stream: Stream) -> Template:
    thing = family.definition.thing
    words = {"name": family.name, "term": family.term, "thing": thing, "type": TYPES[thing]}
    sentence, answer = question.sentence.format(**words), f"return {question.value.format(**words)}"
    helper = f"def {family.name}({thing}):"  # without types, so that it is no line of the first task's prompt
    return Template(
        theme="families",
        level="medium",
        names=(question.function.format(**words),),
        signature=f"({thing}s: list[{TYPES[thing]}]) -> {question.result.format(**words)}",
        sentence=sentence if stream == "compositional" else f"{sentence}\n{family.rule}",
        solution=(helper, "    return {k}", answer),
        slip=(helper, f"    return {GUESSES[thing][0]}", answer),
        inputs=INPUTS[thing].format(*question.sizes),
        constants=(family.value, *GUESSES[thing]),
    )
