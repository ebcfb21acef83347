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


def show(failures: Sequence[Failure], comparisons: Sequence[Comparison], console: Console) -> None:
    """Print what was executed, each type of exception, all scores, and for the evidence that readers saw each class."""
    held = [
        comparison
        for comparison in comparisons
        if comparison.against == "labels, held out" and comparison.evidence == SHOWN
    ]
    for sheet in (executed(failures), by_type(comparisons), overall(comparisons), *map(by_class, held)):
        show_sheet(sheet, console)


def executed(failures: Sequence[Failure]) -> Sheet:
    """Attempts that their logs call failed, by file; and where what they raise here is not what the log says."""
    rows = []
    for name in dict.fromkeys(failure.file for failure in failures):
        own = [failure for failure in failures if failure.file == name]
        plain = sum(failure.recorded == "AssertionError" for failure in own)
        rows.append((name, *map(str, (len(own), plain, *_against_log(own)))))
    plain = sum(failure.recorded == "AssertionError" for failure in failures)
    rows.append(("all", *map(str, (len(failures), plain, *_against_log(failures)))))
    columns = ("file", "failing", "AssertionError", "raise the same here", "raise another", "pass here")
    caption = f"{len({failure.sample.program for failure in failures})} programs, {problems(failures)} problems."
    if odd := Counter(f"{failure.recorded} → {failure.raised or 'pass'}" for failure in failures if not _same(failure)):
        caption += " Not the same: " + ", ".join(f"{count} × {what}" for what, count in odd.most_common()) + "."
    return Sheet(title="Failing attempts, executed once more", columns=columns, rows=tuple(rows), caption=caption)


def by_type(comparisons: Sequence[Comparison]) -> Sheet:
    """A row a type of exception: how many are called what the table says, by evidence and rules."""
    typed = [comparison for comparison in comparisons if comparison.against == "executed" and comparison.typed]
    rows = []
    for kind, count in Counter(case.kind for case in typed[0].cases).most_common():
        named = [case for case in typed[0].cases if case.kind == kind]
        classes = "/".join(dict.fromkeys(case.truth for case in named))
        cells = [_percent(_right(comparison, kind, rules)) for comparison in typed for rules in RULES]
        rows.append((kind, classes, str(count), str(len({case.problem for case in named})), *cells))
    columns = (
        "raised",
        "class",
        "n",
        "problems",
        *(f"{comparison.evidence}: {rules}" for comparison in typed for rules in RULES),
    )
    title = "Called what the table of exceptions says, the type being in the text"
    return Sheet(title=title, columns=columns, rows=tuple(rows), names=2)


def overall(comparisons: Sequence[Comparison]) -> Sheet:
    """A row a truth and evidence: accuracy and macro-averaged F1 of each set of rules, and what ours gain."""
    rows = []
    for comparison in comparisons:
        cells = []
        for rules in RULES:
            own = comparison.score(rules)
            cells.append(f"{_wide(own.accuracy)}\nF1 {_wide(own.macro_f1)}")
        gained, f1 = comparison.gained(OTHERS[0])
        gain = f"{100 * gained.difference:+.1f} {interval(gained.low, gained.high)}"
        gain += f"\n{gained.repaired} : {gained.damaged}, p = {gained.p:.2g}\nF1 {_wide(f1, '+')}"
        kind = "with type" if comparison.typed else "without type"
        rows.append((comparison.against, f"{comparison.evidence}, {kind}", str(len(comparison.cases)), *cells, gain))
    columns = ("truth", "evidence", "n", *RULES, f"lab minus {OTHERS[0]}")
    caption = (
        f"{METHOD} Last column: Newcombe 95 %, cases won : lost, McNemar's exact test, which take cases as independent."
    )
    return Sheet(
        title="100 × accuracy, and macro-averaged F1", columns=columns, rows=tuple(rows), names=2, caption=caption
    )


def by_class(comparison: Comparison) -> Sheet:
    """Recall and precision of every class that occurs."""
    rows = []
    for place, first in enumerate(comparison.score(OURS).classes):
        cells = []
        for rules in RULES:
            own = comparison.score(rules).classes[place]
            precise = f"{own.precision.k} of {own.precision.n}"
            cells += [f"{_wide(own.recall)}", precise, f"{own.f1:.2f}"]
        rows.append((first.name, str(first.recall.n), *cells))
    columns = ("class", "n", *(f"{rules}: {what}" for rules in RULES for what in ("recall", "precise", "F1")))
    return Sheet(
        title=f"{comparison.against}: {comparison.evidence}, without type",
        columns=columns,
        rows=tuple(rows),
        caption=METHOD,
    )


def as_rows(comparisons: Sequence[Comparison]) -> Iterator[dict[str, Any]]:
    """One row a comparison, rules and group (all, a class, a type of exception): the contract of `table.csv`."""
    for comparison in comparisons:
        for own in comparison.scores:
            head = {
                "truth": comparison.against,
                "evidence": comparison.evidence,
                "typed": comparison.typed,
                "rules": own.rules,
            }
            yield from (head | row for row in _groups(comparison, own))


def _groups(comparison: Comparison, own: Score) -> Iterator[dict[str, Any]]:
    empty = dict.fromkeys(("precision", "called", "f1", "f1_low", "f1_high", "gain", "won", "lost", "p"), "")
    row = {"group": "all", **_flat(own.accuracy, comparison.cases), **empty}
    row |= {"f1": _round(own.macro_f1.value), "f1_low": _round(own.macro_f1.low), "f1_high": _round(own.macro_f1.high)}
    if own.rules != OURS:
        gained, _ = comparison.gained(own.rules)
        row |= {
            "gain": _round(gained.difference),
            "won": gained.repaired,
            "lost": gained.damaged,
            "p": f"{gained.p:.3g}",
        }
    yield row
    for kind in own.classes:
        named = [case for case in comparison.cases if case.truth == kind.name]
        precise = {"precision": _round(kind.precision.share), "called": kind.precision.n, "f1": _round(kind.f1)}
        yield {"group": f"class {kind.name}", **_flat(kind.recall, named), **empty, **precise}
    for raised in dict.fromkeys(case.kind for case in comparison.cases):
        named = [case for case in comparison.cases if case.kind == raised]
        yield {"group": f"raised {raised}", **_flat(_right(comparison, raised, own.rules), named), **empty}


def problems(failures: Sequence[Failure]) -> int:
    return len({failure.sample.task_id for failure in failures})


def _right(comparison: Comparison, kind: str, rules: str) -> Rate:
    named = [case for case in comparison.cases if case.kind == kind]
    return share([case for case in named if case.guesses[rules] == case.truth], named)


def _against_log(own: Sequence[Failure]) -> tuple[int, int, int]:
    same, passed = sum(map(_same, own)), sum(not failure.raised for failure in own)
    return same, len(own) - same - passed, passed


def _same(failure: Failure) -> bool:
    return failure.raised == failure.recorded


def _flat(rate: Rate, cases: Sequence[Case]) -> dict[str, Any]:
    """Under `right`, `share` …: accuracy of a group that is all cases or a type, recall of one that is a class."""
    named = {"n": rate.n, "problems": len({case.problem for case in cases}), "right": rate.k}
    return named | {"share": _round(rate.share), "low": _round(rate.low), "high": _round(rate.high)}


def _round(value: float) -> float:
    return round(value, 4)


def _percent(rate: Rate) -> str:
    return f"{100 * rate.share:.0f}"


def _wide(estimate: Rate | Estimate, sign: str = "") -> str:
    value = estimate.share if isinstance(estimate, Rate) else estimate.value
    return f"{100 * value:{sign}.1f} {interval(estimate.low, estimate.high)}"
