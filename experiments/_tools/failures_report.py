"""What a comparison of rules on real failures found: sheets for terminal and notebook, and rows for files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from experiments._tools.failing_attempts import Failure
from experiments._tools.failure_cases import OURS, RULES, SHOWN, Comparison
from experiments._tools.failure_scores import Case, Score, share
from experiments._tools.output import show_sheet
from reflexion_lab.analysis.report.cells import interval
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.stats.intervals import Estimate, Rate

if TYPE_CHECKING:
    from rich.console import Console

METHOD = (
    "Accuracy, recall: Wilson 95 %, cases discounted for sharing problems. Macro-averaged F1: bootstrap over problems, "
    "a point where all or none are right, which is no certainty."
)
OTHERS = RULES[1:]


def show(failures: Sequence[Failure], found: Sequence[Comparison], console: Console) -> None:
    """Print what was executed, each type of exception, all scores, and for the evidence that readers saw each class."""
    held = [one for one in found if one.against == "labels, held out" and one.evidence == SHOWN]
    for sheet in (executed(failures), by_type(found), overall(found), *map(by_class, held)):
        show_sheet(sheet, console)


def executed(failures: Sequence[Failure]) -> Sheet:
    """Attempts that their logs call failed, by file; and where what they raise here is not what the log says."""
    rows = []
    for name in dict.fromkeys(one.file for one in failures):
        own = [one for one in failures if one.file == name]
        plain = sum(one.recorded == "AssertionError" for one in own)
        rows.append((name, *map(str, (len(own), plain, *_against_log(own)))))
    plain = sum(one.recorded == "AssertionError" for one in failures)
    rows.append(("all", *map(str, (len(failures), plain, *_against_log(failures)))))
    columns = ("file", "failing", "AssertionError", "raise the same here", "raise another", "pass here")
    caption = f"{len({one.sample.program for one in failures})} programs, {problems(failures)} problems."
    if odd := Counter(f"{one.recorded} → {one.raised or 'pass'}" for one in failures if not _same(one)):
        caption += " Not the same: " + ", ".join(f"{count} × {what}" for what, count in odd.most_common()) + "."
    return Sheet(title="Failing attempts, executed once more", columns=columns, rows=tuple(rows), caption=caption)


def by_type(found: Sequence[Comparison]) -> Sheet:
    """A row a type of exception: how many are called what the table says, by evidence and rules."""
    shown = [one for one in found if one.against == "executed" and one.typed]
    rows = []
    for kind, count in Counter(case.kind for case in shown[0].cases).most_common():
        named = [case for case in shown[0].cases if case.kind == kind]
        classes = "/".join(dict.fromkeys(case.truth for case in named))
        cells = [_percent(_right(one, kind, rules)) for one in shown for rules in RULES]
        rows.append((kind, classes, str(count), str(len({case.problem for case in named})), *cells))
    columns = ("raised", "class", "n", "problems", *(f"{one.evidence}: {rules}" for one in shown for rules in RULES))
    title = "Called what the table of exceptions says, the type being in the text"
    return Sheet(title=title, columns=columns, rows=tuple(rows), names=2)


def overall(found: Sequence[Comparison]) -> Sheet:
    """A row a truth and evidence: accuracy and macro-averaged F1 of each set of rules, and what ours gain."""
    rows = []
    for one in found:
        cells = []
        for rules in RULES:
            own = one.score(rules)
            cells.append(f"{_wide(own.accuracy)}\nF1 {_wide(own.macro_f1)}")
        gained, f1 = one.gained(OTHERS[0])
        gain = f"{100 * gained.difference:+.1f} {interval(gained.low, gained.high)}"
        gain += f"\n{gained.repaired} : {gained.damaged}, p = {gained.p:.2g}\nF1 {_wide(f1, '+')}"
        kind = "with type" if one.typed else "without type"
        rows.append((one.against, f"{one.evidence}, {kind}", str(len(one.cases)), *cells, gain))
    columns = ("truth", "evidence", "n", *RULES, f"lab minus {OTHERS[0]}")
    caption = (
        f"{METHOD} Last column: Newcombe 95 %, cases won : lost, McNemar's exact test, which take cases as independent."
    )
    return Sheet(
        title="100 × accuracy, and macro-averaged F1", columns=columns, rows=tuple(rows), names=2, caption=caption
    )


def by_class(one: Comparison) -> Sheet:
    """Recall and precision of every class that occurs."""
    rows = []
    for place, first in enumerate(one.score(OURS).classes):
        cells = []
        for rules in RULES:
            own = one.score(rules).classes[place]
            precise = f"{own.precision.k} of {own.precision.n}"
            cells += [f"{_wide(own.recall)}", precise, f"{own.f1:.2f}"]
        rows.append((first.name, str(first.recall.n), *cells))
    columns = ("class", "n", *(f"{rules}: {what}" for rules in RULES for what in ("recall", "precise", "F1")))
    return Sheet(
        title=f"{one.against}: {one.evidence}, without type", columns=columns, rows=tuple(rows), caption=METHOD
    )


def as_rows(found: Sequence[Comparison]) -> Iterator[dict[str, Any]]:
    """One row a comparison, rules and group (all, a class, a type of exception): the contract of `table.csv`."""
    for one in found:
        for own in one.scores:
            head = {"truth": one.against, "evidence": one.evidence, "typed": one.typed, "rules": own.rules}
            yield from (head | row for row in _groups(one, own))


def _groups(one: Comparison, own: Score) -> Iterator[dict[str, Any]]:
    empty = dict.fromkeys(("precision", "called", "f1", "f1_low", "f1_high", "gain", "won", "lost", "p"), "")
    row = {"group": "all", **_flat(own.accuracy, one.cases), **empty}
    row |= {"f1": _round(own.macro_f1.value), "f1_low": _round(own.macro_f1.low), "f1_high": _round(own.macro_f1.high)}
    if own.rules != OURS:
        gained, _ = one.gained(own.rules)
        row |= {
            "gain": _round(gained.difference),
            "won": gained.repaired,
            "lost": gained.damaged,
            "p": f"{gained.p:.3g}",
        }
    yield row
    for kind in own.classes:
        named = [case for case in one.cases if case.truth == kind.name]
        precise = {"precision": _round(kind.precision.share), "called": kind.precision.n, "f1": _round(kind.f1)}
        yield {"group": f"class {kind.name}", **_flat(kind.recall, named), **empty, **precise}
    for raised in dict.fromkeys(case.kind for case in one.cases):
        named = [case for case in one.cases if case.kind == raised]
        yield {"group": f"raised {raised}", **_flat(_right(one, raised, own.rules), named), **empty}


def problems(failures: Sequence[Failure]) -> int:
    return len({one.sample.task_id for one in failures})


def _right(one: Comparison, kind: str, rules: str) -> Rate:
    named = [case for case in one.cases if case.kind == kind]
    return share([case for case in named if case.guesses[rules] == case.truth], named)


def _against_log(own: Sequence[Failure]) -> tuple[int, int, int]:
    same, passed = sum(map(_same, own)), sum(not one.raised for one in own)
    return same, len(own) - same - passed, passed


def _same(one: Failure) -> bool:
    return one.raised == one.recorded


def _flat(rate: Rate, cases: Sequence[Case]) -> dict[str, Any]:
    """Under `right`, `share` …: accuracy of a group that is all cases or a type, recall of one that is a class."""
    named = {"n": rate.n, "problems": len({case.problem for case in cases}), "right": rate.k}
    return named | {"share": _round(rate.share), "low": _round(rate.low), "high": _round(rate.high)}


def _round(value: float) -> float:
    return round(value, 4)


def _percent(rate: Rate) -> str:
    return f"{100 * rate.share:.0f}"


def _wide(found: Rate | Estimate, sign: str = "") -> str:
    value = found.share if isinstance(found, Rate) else found.value
    return f"{100 * value:{sign}.1f} {interval(found.low, found.high)}"
