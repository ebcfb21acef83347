"""Quality of reflections by rules for English: failing check named, true cause named, executable advice.

    python -m experiments.words_and_their_controls.words RUN...

The rules read words, not meaning: `rating.py` beside this file compares them with people. A table has a row per arm and
quality, with the share of wrong programs that the next attempt repairs, with the quality and without it.
"""

from __future__ import annotations

import ast
import builtins
import io
import itertools
import keyword
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from experiments._tools import output
from reflexion_lab.agent.reflectors.reviewed import ACT, COMMONPLACE, INTENDED_ACT, flags
from reflexion_lab.analysis.learning.effect import effect, readings
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.cells import NONE
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.bootstrap import interval
from reflexion_lab.analysis.stats.clusters import ALONE, by_cluster
from reflexion_lab.analysis.stats.estimators import verdict
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.records import Attempt, Record, Reflection
from reflexion_lab.runner.folder.folder import RunFolder, some_folders
from reflexion_lab.runner.solutions import tasks_of
from reflexion_lab.text.replies.syntax import UNPARSABLE
from reflexion_lab.text.replies.tokens import STOP_WORDS

if TYPE_CHECKING:
    import argparse

Solutions = Mapping[str, Mapping[str, str]]
"""Canonical programs by run id and task id."""
NAMES = ("names_check", "names_cause", "is_advice")
"""Fields of `Quality`."""
COLUMNS = ("quality", "n", "% [95 %]", "by\nchance", "repaired\nwith", "repaired\nwithout", "difference\n[95 %]")
WORDS = {"names_check": "failing check named", "names_cause": "true cause named", "is_advice": "executable advice"}
CAPTION = "By rules for English; rating.py compares them with people."
METHOD = (
    "Repaired: wrong programs whose next attempt read the words and passes the hidden tests. Difference: descriptive, "
    "since words with and without a quality are about other failures."
)
READ = 20_000
"""Length limit in characters of programs and texts."""
NEAR = 12
"""Words after a verb among which its object is searched."""
SYNTAX = "syntax"
"""Feature of a program that is not Python."""

SPOKEN = {
    SYNTAX: r"syntax|indent\w*|parenthes[ie]s|brackets?|colons?|invalid python|incomplete",
    "+": r"add(?:s|ed|ing)?|addition|sum(?:s|med|ming)?|plus|concatenat\w+",
    "-": r"subtract\w*|minus|differences?|negat\w+",
    "*": r"multipl\w+|products?|times",
    "/": r"divi\w+|quotients?",
    "//": r"divi\w+|quotients?|floor\w*",
    "%": r"modul\w+|remainders?|divisib\w+",
    "**": r"powers?|squar\w+|cub\w+|exponent\w*",
    "<": r"less|smaller|below|greater|larger|compar\w+|boundar\w+|off[- ]by[- ]one",
    "==": r"equal\w*|compar\w+|differ\w*|unequal",
    "and": r"both|conjunction|logical",
    "or": r"either|disjunction|logical",
    "not": r"negat\w+|invert\w*|opposite|inverse",
    "if": r"conditions?|conditionals?|if[- ]statements?|branch\w*|base cases?|edge cases?|filter\w*",
    "for": r"loops?|looping|iterat\w+|range|recurs\w+|every (?:element|item|number|character|word)",
    "return": r"return statements?|missing return|returns? nothing|returns? None",
    "[": r"ind(?:ex|ices|exes|exing)|slic\w+|subscript\w*|(?:first|last) (?:element|item|character)",
    "try": r"exceptions?|try|rais(?:e|es|ed|ing)",
    "lambda": r"lambda|key function",
}  # fmt: skip
"""Spoken forms of a feature."""
ALIKE = {
    "else": "if", "elif": "if", "while": "for", "break": "for", "continue": "for", ">": "<", "<=": "<", ">=": "<",
    "!=": "==", "is": "==", "+=": "+", "-=": "-", "*=": "*", "/=": "/", "//=": "//", "%=": "%", "**=": "**",
    "]": "[", "except": "try", "finally": "try", "raise": "try", "yield": "return",
}  # fmt: skip
"""Tokens that count as another one."""
_SPOKEN = {name: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for name, words in SPOKEN.items()}
_WORD = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`|\w+(?:\.\w+)*|[.;]")
_CONSTRUCTS = {
    "if": r"conditions?|conditionals?|branch|comparison|base case",
    "for": r"loops?|iteration|range",
    "while": r"loops?|iteration",
    "return": r"return|returned|result",
    "[": r"index|indices|slices?|key",
    "+": r"sum|addition",
    "%": r"modulo|remainder",
    "/": r"division",
    "*": r"multiplication|product",
}
"""Constructs of a program that may be the object of an advice, by token."""


class RepairShare(Record, frozen=True, kw_only=True):
    """Share of failures that were repaired. The interval is clustered by `Arm.clusters`."""

    k: int
    n: int
    share: Estimate


class Quality(NamedTuple):
    """Qualities of one reflection; None where a quality is not defined."""

    names_check: bool | None
    """Whether the reflection names the call, a value or the exception of a failing check; None without one."""
    names_cause: bool | None
    """Whether it names a feature in which program and canonical solution differ; None without a difference."""
    is_advice: bool
    """Whether it says how to change something that the program or a failing check contains."""


def quality(attempt: Attempt, canonical: str = "") -> Quality | None:
    """Qualities of the reflection on an attempt; None without a text.

    Parameters
    ----------
    attempt : Attempt
    canonical : str, default ""
        Canonical program of its task; "" if unknown.
    """
    words = attempt.reflection
    if words is None or not (text := _text(words)):
        return None
    cites = "misses_check" not in flags(words, attempt, ())
    features = difference(attempt.trajectory.solution, canonical)
    return Quality(
        names_check=cites if attempt.evaluation.failures else None,
        names_cause=names_any(text, features) if features else None,
        is_advice=_advises(words, attempt),
    )


def names_any(text: str, features: frozenset[str]) -> bool:
    """Whether a text names one of the features of `difference`: its word, its token in code, or its value."""
    for feature in features:
        if feature in _SPOKEN and _SPOKEN[feature].search(text):
            return True
        is_word = feature[0].isalnum() or feature[0] in "_'\""
        if is_word and feature not in _SPOKEN and re.search(rf"(?<![\w.]){re.escape(feature)}(?!\w|\.\d)", text):
            return True
    return False


def difference(program: str, canonical: str) -> frozenset[str]:
    """Features in which a program differs from the canonical one; empty if either is missing, or they are alike.

    Both are parsed and printed again with local names replaced in the order of their appearance; `difflib` aligns their
    tokens. Features are the tokens of the parts that do not match: operators, control flow, constants (0, 1 and the
    empty string excepted, which occur in any text), built-in functions and attributes. Names of variables are none.
    """
    if not program.strip() or not canonical.strip():
        return frozenset()
    after = plain_tokens(canonical)
    if after is None:
        return frozenset()
    before = plain_tokens(program)
    if before is None:
        return frozenset({SYNTAX})
    changed: set[str] = set()
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            changed |= {*before[a:b], *after[c:d]}
    return frozenset(filter(None, map(_feature, changed)))


def plain_tokens(program: str) -> list[str] | None:
    """Tokens of the canonical print of a program; None if it is not Python."""
    try:
        tree = _Plain().visit(ast.parse(program[:READ]))
        printed = ast.unparse(tree)
        strings = (token.string for token in tokenize.generate_tokens(io.StringIO(printed).readline))
        return [string for string in strings if string.strip()]
    except (*UNPARSABLE, tokenize.TokenError):
        return None


class _Plain(ast.NodeTransformer):
    """Removes docstrings and annotations, and replaces names that are bound in functions."""

    def __init__(self) -> None:
        self.local: dict[str, str] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
                argument.arg = self._renamed(argument.arg)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return self.generic_visit(ast.Assign([node.target], node.value, lineno=node.lineno))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Store) or node.id in self.local:
            node.id = self._renamed(node.id)
        return node

    def _renamed(self, name: str) -> str:
        return self.local.setdefault(name, f"v{len(self.local)}_")


def _feature(token: str) -> str:
    """The feature of a token; "" for none."""
    token = ALIKE.get(token, token)
    if token in SPOKEN:
        return token
    if token[0].isdigit() or token[0] in "'\"":
        return "" if token in ("0", "1", "''") else token
    is_local = re.fullmatch(r"v\d+_", token)
    is_named = token.isidentifier() and not keyword.iskeyword(token) and not is_local
    return token if is_named and (hasattr(builtins, token) or len(token) > 2) and token not in COMMONPLACE else ""


def _text(words: Reflection) -> str:
    return " ".join(filter(None, words.texts))[:READ]


def _advises(words: Reflection, attempt: Attempt) -> bool:
    """Whether a verb for a change is followed, in its sentence, by an object of the program or a failing check."""
    intended = " ".join((words.what_to_change, *words.action_items))[:READ]
    verbs = [*ACT.finditer(intended), *INTENDED_ACT.finditer(_text(words))]
    if not verbs:
        return False
    objects = _objects(attempt)
    return any(objects(word) for match in verbs for word in _following(match))


def _following(verb: re.Match[str]) -> Iterator[str]:
    """The next words of the sentence, with those between an intention and its verb."""
    for place, match in enumerate(_WORD.finditer(verb.string, verb.start())):
        if place > 2 * NEAR or match[0] in ".;":
            return
        if match.end() > verb.end():
            yield match[0].strip("'\"`")


def _objects(attempt: Attempt) -> Callable[[str], bool]:
    program = attempt.trajectory.solution[:READ]
    checks = " ".join(check.name for check in attempt.evaluation.failures)
    named = {*re.findall(r"[A-Za-z_]\w*|\d+(?:\.\d+)?", f"{program} {checks}")}
    common = STOP_WORDS | {"assert", "def", "candidate"}
    names = {name for name in named if name not in common and not keyword.iskeyword(name)} | {"None", "True", "False"}
    present = [words for token, words in _CONSTRUCTS.items() if token in program]
    constructs = re.compile("|".join(present) or r"(?!)", re.IGNORECASE)
    return lambda word: word in names or bool(constructs.fullmatch(word)) or _is_call(word, names)


def _is_call(word: str, names: set[str]) -> bool:
    """Whether quoted code names something of the program."""
    return not word.isidentifier() and bool({*re.findall(r"[A-Za-z_]\w*", word)} & names)


def solutions(runs: Iterable[RunFolder]) -> Solutions:
    """Canonical programs of the tasks of these runs."""
    return {
        run: {name: each.canonical_program for name, each in tasks.items()} for run, tasks in tasks_of(runs).items()
    }


class QualityFigures(Record, frozen=True, kw_only=True):
    """One quality over the reflections of some runs of an arm. Intervals are clustered by task."""

    name: str
    """One of `NAMES`."""
    rate: RepairShare | None
    """Reflections with it; None if it is defined for none."""
    by_chance: RepairShare | None
    """Reflections that would have it if they were about the attempt after the next reflection of the run, at another
    task; only of `names_cause`."""
    repaired_with: RepairShare | None
    """Wrong programs whose next attempt read the reflection on them and passes the hidden tests, with the quality."""
    repaired_without: RepairShare | None
    effect: Estimate | None
    """Difference of the two shares; descriptive, since reflections with and without it are about different failures."""


class _Row(NamedTuple):
    cluster: str
    quality: Quality
    by_chance: bool | None
    repaired: bool | None
    """None if the program was right, or no attempt read the reflection, or a hidden verdict is missing."""


def word_quality(logs: Sequence[Log], solutions: Solutions) -> tuple[QualityFigures, ...]:
    """Qualities of the reflections of some runs, and how often the next attempt repairs the program; () without any.

    Parameters
    ----------
    solutions : Mapping[str, Mapping[str, str]]
        Canonical programs by run and task; {} if unknown, which leaves out `names_cause`.
    """
    rows = [row for log in logs for row in _rows(log, solutions.get(log.manifest.run_id, {}))]
    return tuple(_figures(name, rows) for name in NAMES) if rows else ()


def _rows(log: Log, solutions: Mapping[str, str]) -> Iterator[_Row]:
    grades = log.sealed_grades
    repaired = {
        _key(reading.before): verdict(grades.get(_key(reading.attempt)))
        for reading in readings(log)
        if reading.before and any(written.attempt is reading.before for written in reading.read)
    }
    rated = [
        (attempt, rated)
        for attempt in log.every
        if (rated := quality(attempt, solutions.get(attempt.task_id, ""))) is not None
    ]
    for place, (attempt, rated_words) in enumerate(rated):
        was_wrong = verdict(grades.get(_key(attempt))) is False
        following = itertools.chain(range(place + 1, len(rated)), range(place))
        others = (rated[at][0] for at in following if rated[at][0].task_id != attempt.task_id)
        yield _Row(
            log.clusters.get(attempt.task_id, attempt.task_id),
            rated_words,
            _by_chance(attempt, others, solutions) if rated_words.names_cause is not None else None,
            repaired.get(_key(attempt)) if was_wrong else None,
        )


def _key(attempt: Attempt) -> tuple[str, int]:
    return attempt.task_id, attempt.number


def _by_chance(attempt: Attempt, others: Iterable[Attempt], solutions: Mapping[str, str]) -> bool | None:
    """`names_cause` of these words for the next attempt at another task that has a difference."""
    for other in others:
        features = difference(other.trajectory.solution, solutions.get(other.task_id, ""))
        if features and attempt.reflection:
            return names_any(_text(attempt.reflection), features)
    return None


def _figures(name: str, rows: Sequence[_Row]) -> QualityFigures:
    rated = [(row, bool(value)) for row in rows if (value := getattr(row.quality, name)) is not None]
    outcomes: dict[bool, list[tuple[str, bool]]] = {True: [], False: []}
    verdicts: dict[bool, dict[tuple[str, int], bool]] = {True: {}, False: {}}
    for place, (row, value) in enumerate(rated):
        if row.repaired is not None:
            outcomes[value].append((row.cluster, row.repaired))
            verdicts[value][row.cluster, place] = row.repaired
    by_chance = [(row.cluster, row.by_chance) for row in rows if row.by_chance is not None]
    return QualityFigures(
        name=name,
        rate=_share([(row.cluster, value) for row, value in rated]),
        by_chance=_share(by_chance if name == "names_cause" else []),
        repaired_with=_share(outcomes[True]),
        repaired_without=_share(outcomes[False]),
        effect=effect(verdicts[True], verdicts[False]),
    )


def _share(outcomes: Sequence[tuple[str, bool]]) -> RepairShare | None:
    if not outcomes:
        return None
    k = sum(passed for _, passed in outcomes)
    return RepairShare(k=k, n=len(outcomes), share=interval(by_cluster(outcomes, ALONE)))


def quality_sheet(logs_by_arm: Mapping[str, Sequence[Log]], programs: Solutions) -> Sheet:
    """One row per arm and quality."""
    rows = tuple(row for arm, logs in logs_by_arm.items() for row in _lines(plain(arm), logs, programs))
    title = "Quality of reflections; shares in %"
    return Sheet(title=title, columns=("arm", *COLUMNS), rows=rows, caption=f"{CAPTION} {METHOD}", names=2)


def _lines(arm: str, logs: Sequence[Log], solutions: Solutions) -> Iterator[tuple[str, ...]]:
    for figures in word_quality(logs, solutions):
        rate, effect = figures.rate, figures.effect
        yield (
            arm,
            WORDS[figures.name],
            str(rate.n) if rate else NONE,
            cells.estimate(rate.share) if rate else NONE,
            cells.number(figures.by_chance.share.value) if figures.by_chance else NONE,
            _counts(figures.repaired_with),
            _counts(figures.repaired_without),
            cells.estimate(effect, signed=True) if effect else NONE,
        )


def _counts(share: RepairShare | None) -> str:
    return f"{share.k}/{share.n}" if share else NONE


def parser() -> argparse.ArgumentParser:
    top = output.script_parser("words", "quality of reflections by rules", "words_and_their_controls")
    top.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="run folders; those of one arm are pooled")
    return top


def show(options: argparse.Namespace) -> int:
    from rich.console import Console

    runs = some_folders(*map(str, options.runs))
    by_arm: dict[str, list[Log]] = {}
    for run in runs:
        log = Log.read(run, texts=False)
        by_arm.setdefault(log.arm, []).append(log)
    output.show_sheet(quality_sheet(by_arm, solutions(runs)), Console())
    return 0


if __name__ == "__main__":
    raise SystemExit(output.run(parser(), show, None))
