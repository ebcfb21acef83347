"""A comparison of rules on real failures as tables, rows and a figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments._tools import output
from experiments._tools.failure_cases import Case, Comparison, Score, recall
from experiments._tools.failure_evidence import OURS, RULES, Classified
from experiments._tools.output import columns, percent
from reflexion_lab.analysis.figures.style import INK, caption
from reflexion_lab.analysis.report.cells import interval
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.stats.intervals import Rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

METHOD = (
    "Dot: share of a class's failures that are called so; bar: 95 % interval over problems.\n"
    "With type: the truth is the exception's type, which the lab's rules read, so that they cannot but be right.\n"
    "Without: the type is cut out of a traceback with source lines; the truth is what a reader of that text said.\n"
    "Keywords: the rules of two earlier systems, reconstructed. What a class is wrongly given shows in the table alone."
)
INTERVALS = "95 % intervals, with problems as clusters. Macro-averaged F1: bootstrap over problems."
OTHERS = RULES[1:]
EMPTY = dict.fromkeys(
    ("precision", "called", "f1", "f1_low", "f1_high", "gain", "gain_low", "gain_high", "won", "lost", "p"), ""
)


def show(failures: Sequence[Classified], comparisons: Sequence[Comparison], console: Console) -> None:
    """Print the executed failures, each exception type, all scores, and the classes on the evidence of the labels."""
    by_classes = [by_class(comparison) for comparison in comparisons if comparison.is_shown]
    for sheet in (executed(failures), by_type(comparisons), overall(comparisons), *by_classes):
        output.show_sheet(sheet, console)


def executed(failures: Sequence[Classified]) -> Sheet:
    """Attempts logged as failed, by file, and whether they raise here what the log says."""
    files = dict.fromkeys(failure.file for failure in failures)
    groups = [(name, [failure for failure in failures if failure.file == name]) for name in files]
    rows = []
    for name, group in (*groups, ("all", failures)):
        plain = sum(failure.recorded == "AssertionError" for failure in group)
        same, passed = sum(map(_agrees, group)), sum(not failure.raised for failure in group)
        rows.append((name, *map(str, (len(group), plain, same, len(group) - same - passed, passed))))
    names = ("file", "failing", "AssertionError", "raise the same here", "raise another", "pass here")
    text = f"{len({failure.program for failure in failures})} programs, {problems(failures)} problems."
    others = [failure for failure in failures if not _agrees(failure)]
    if odd := Counter(f"{failure.recorded} → {failure.raised or 'pass'}" for failure in others):
        text += " Different: " + ", ".join(f"{count} × {change}" for change, count in odd.most_common()) + "."
    return Sheet(title="Failing attempts, executed again", columns=names, rows=tuple(rows), caption=text)


def by_type(comparisons: Sequence[Comparison]) -> Sheet:
    """One row per exception type: share with the class of the table, by evidence and rules."""
    typed = [comparison for comparison in comparisons if comparison.against == "executed" and comparison.typed]
    rows = []
    for kind, count in Counter(case.kind for case in typed[0].cases).most_common():
        cases = [case for case in typed[0].cases if case.kind == kind]
        classes = "/".join(dict.fromkeys(case.truth for case in cases))
        shares = [f"{100 * _of_kind(comparison, kind, rules).share:.0f}" for comparison in typed for rules in RULES]
        rows.append((kind, classes, str(count), str(len({case.problem for case in cases})), *shares))
    by_rules = (f"{comparison.evidence}: {rules}" for comparison in typed for rules in RULES)
    title = "Share with the class of the exception table, the type being in the text, %"
    return Sheet(title=title, columns=("raised", "class", "n", "problems", *by_rules), rows=tuple(rows), names=2)


def overall(comparisons: Sequence[Comparison]) -> Sheet:
    """One row per truth and evidence: accuracy and macro-averaged F1 of each set of rules, and the lab's gain."""
    rows = []
    for comparison in comparisons:
        scores = [f"{percent(own.accuracy)}\nF1 {percent(own.macro_f1)}" for own in comparison.scores]
        gained, f1 = comparison.gained(OTHERS[0])
        gain = f"{100 * gained.difference:+.1f} {interval(gained.low, gained.high)}"
        gain += f"\n{gained.repaired} : {gained.damaged}, p = {gained.p:.2g}\nF1 {percent(f1, '+')}"
        kind = "with type" if comparison.typed else "without type"
        rows.append((comparison.against, f"{comparison.evidence}, {kind}", str(len(comparison.cases)), *scores, gain))
    text = f"{INTERVALS} Last column: difference, cases won : lost, exact sign-flip test."
    title = "100 × accuracy, and macro-averaged F1"
    names = ("truth", "evidence", "n", *RULES, f"lab minus {OTHERS[0]}")
    return Sheet(title=title, columns=names, rows=tuple(rows), names=2, caption=text)


def by_class(comparison: Comparison) -> Sheet:
    """Recall and precision of every true class."""
    rows = []
    for classes in zip(*(own.classes for own in comparison.scores), strict=True):
        cells = [
            text
            for own in classes
            for text in (percent(own.recall), f"{own.precision.k} of {own.precision.n}", f"{own.f1:.2f}")
        ]
        rows.append((classes[0].name, str(classes[0].recall.n), *cells))
    names = ("class", "n", *(f"{rules}: {name}" for rules in RULES for name in ("recall", "precise", "F1")))
    title = f"{comparison.against}: {comparison.evidence}, without type"
    return Sheet(title=title, columns=names, rows=tuple(rows), caption=INTERVALS)


def as_rows(comparisons: Sequence[Comparison]) -> Iterator[dict[str, Any]]:
    """Rows of `table.csv`: one per comparison, rules and group (all, a class, an exception type)."""
    for comparison in comparisons:
        head = {"truth": comparison.against, "evidence": comparison.evidence, "typed": comparison.typed}
        for own in comparison.scores:
            yield from (head | {"rules": own.rules} | row for row in _groups(comparison, own))


def _groups(comparison: Comparison, own: Score) -> Iterator[dict[str, Any]]:
    row = _row("all", own.accuracy, comparison.cases) | columns(own.macro_f1, "f1", "f1_")
    if own.rules != OURS:
        gained, _ = comparison.gained(own.rules)
        gain = {"gain": gained.difference, "gain_low": gained.low, "gain_high": gained.high}
        row |= {name: round(value, 4) for name, value in gain.items()}
        row |= {"won": gained.repaired, "lost": gained.damaged}
        row["p"] = f"{gained.p:.3g}"
    yield row
    for kind in own.classes:
        cases = [case for case in comparison.cases if case.truth == kind.name]
        precision = {"precision": round(kind.precision.share, 4), "called": kind.precision.n, "f1": round(kind.f1, 4)}
        yield _row(f"class {kind.name}", kind.recall, cases) | precision
    for raised in dict.fromkeys(case.kind for case in comparison.cases):
        cases = [case for case in comparison.cases if case.kind == raised]
        yield _row(f"raised {raised}", _of_kind(comparison, raised, own.rules), cases)


def _row(group: str, rate: Rate, cases: Sequence[Case]) -> dict[str, Any]:
    """`share` is the accuracy of all cases or of an exception type, the recall of a class."""
    counts = {"group": group, "n": rate.n, "problems": len({case.problem for case in cases}), "right": rate.k}
    return counts | columns(rate, "share") | EMPTY


def problems(failures: Sequence[Classified]) -> int:
    return len({failure.problem for failure in failures})


def _of_kind(comparison: Comparison, kind: str, rules: str) -> Rate:
    return recall([case for case in comparison.cases if case.kind == kind], rules)


def _agrees(failure: Classified) -> bool:
    return failure.raised == failure.recorded


def save(comparisons: Sequence[Comparison], failures: Sequence[Classified], folder: Path) -> list[Path]:
    """Write `table.csv` and `figure.svg`."""
    drawing = partial(draw, comparisons, failures)
    return output.save(list(as_rows(comparisons)), drawing, folder, salt="failures", line_end="\n", pad_inches=0.2)


def draw(comparisons: Sequence[Comparison], failures: Sequence[Classified], figure: Figure) -> Figure:
    """Draw recall by class into an empty figure: with the type in the traceback, and without it against the labels."""
    typed = next(comparison for comparison in comparisons if comparison.typed and comparison.evidence == "traceback")
    panels_of = [typed, *(comparison for comparison in comparisons if comparison.is_shown)]
    height = 1.2 + 0.62 * max(len(comparison.scores[0].classes) for comparison in panels_of)
    figure.set_size_inches(5.4 * len(panels_of), height)
    panels = figure.subplots(1, len(panels_of), squeeze=False)[0]
    figure.subplots_adjust(wspace=0.34)
    for ax, comparison in zip(panels, panels_of, strict=True):
        output.forest(_recalls(comparison), ax, "recall")
        _title(ax, comparison)
    files = len({failure.file for failure in failures})
    sources = f"{len(failures)} failing attempts at {problems(failures)} problems, from {files} files of recorded runs."
    caption(panels[0], f"{sources}\n{METHOD}")
    output.legend_above(panels[0])
    return figure


def _recalls(comparison: Comparison) -> dict[str, dict[str, Rate]]:
    rows: dict[str, dict[str, Rate]] = {}
    for own in comparison.scores:
        for kind in own.classes:
            rows.setdefault(f"{kind.name}\nn = {kind.recall.n}", {})[own.rules] = kind.recall
    return rows


def _title(ax: Axes, comparison: Comparison) -> None:
    kind = "type raised" if comparison.typed else "no type, read by hand, held out"
    text = f"{comparison.evidence}, {kind}: n = {len(comparison.cases)}"
    ax.set_title(text, fontsize=10, loc="left", color=INK)
