"""What registered comparisons share: arms of `cases.csv.gz`, their differences, and the table of their page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments._tools.evidence import CASES
from experiments._tools.output import save
from experiments._tools.recompute import README, TABLE, csv_text, percent, points, readme, share
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison, compare
from reflexion_lab.analysis.comparison.cases import load_cases
from reflexion_lab.analysis.comparison.lines import Difference
from reflexion_lab.analysis.comparison.row import Row
from reflexion_lab.analysis.report.cells import p_value
from reflexion_lab.analysis.report.documents import rows
from reflexion_lab.errors import DataError
from reflexion_lab.runner.folder.registration import FILE as STUDY
from reflexion_lab.runner.folder.registration import Registration
from reflexion_lab.runner.folder.registration import read as read_registration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EQUAL = {"equal_attempts": "attempts", "equal_completion_tokens": "completion tokens", "equal_tokens": "tokens"}
"""Budgets of the table by key of `Row.differences`."""


WIDTH = 118
"""Of a line of a page, in characters."""


class Study(NamedTuple):
    """The evidence of a registered study."""

    registration: Registration
    arms: tuple[Arm, ...]
    comparison: Comparison

    def row(self, arm: str) -> Row:
        return next(row for row in self.comparison.rows if row.arm == arm)


@cache
def read(folder: Path, file: str = STUDY, cases: str = CASES) -> Study:
    """The study of a folder, at its equivalence margin; one seed may be enough. `file` and `cases`: their names.

    Raises
    ------
    DataError
        The cases are not those of the registered study: another digest, or other arms, seeds or numbers of tasks.
    """
    registration = read_registration(folder / file)
    arms = load_cases(folder / cases)
    runs = [log.manifest for arm in arms for log in arm.logs]
    got = {"digest": {run.study_digest for run in runs}, "n_tasks": {run.n_expected for run in runs}}
    got |= {"arms": {arm.label for arm in arms}, "seeds": {arm.seeds for arm in arms}}
    expected = {"digest": {registration.digest}, "n_tasks": {registration.n_tasks}}
    expected |= {"arms": {*registration.arms}, "seeds": {tuple(registration.seeds)}}
    for name, values in expected.items():
        if got[name] != values:
            raise DataError(f"{folder / cases}: {name}", str(got[name]), f"{values}, as registered")
    margin = registration.equivalence_margin or None
    return Study(registration, tuple(arms), compare(arms, registration.baseline, margin=margin))


def page(folder: Path, study: Study, **values: Any) -> Mapping[str, str]:
    """Texts of `table.csv` and the README; the template reads `arms`, `design`, `table`, `claim` and `values`."""
    known = {
        "arms": {row.arm: row for row in study.comparison.rows},
        "design": design(study),
        "table": "\n".join(table(study)),
        "claim": claim,
        "p_value": p_value,
    }
    return {TABLE: csv_text(published(study)), README: readme(folder, **known, **values)}


def published(study: Study) -> list[dict[str, object]]:
    """Lines of `table.csv`. Which differences are registered, its metrics say: cases hold no configs to compare."""
    every, left_out = rows(study.comparison), ("exploratory", "reasons")
    return [{name: cell for name, cell in line.items() if name not in left_out} for line in every]


def claim(difference: Difference) -> str:
    """The verdict, with real minus signs."""
    return difference.conclusion.replace("-", "−")


def design(study: Study) -> str:
    """What was registered, and what came of it."""
    plan, rows_ = study.registration, study.comparison.rows
    section = plan.registered
    margin = f", equivalence margin ±{100 * plan.equivalence_margin:g} points" if plan.equivalence_margin else ""
    metrics = ", ".join(f"`{name}`" for name in (plan.primary_metric, *plan.other_metrics))
    spent = sum(row.of.usage.tokens for row in rows_)
    lost = sum(len(row.of.attempts) - row.final.n for row in rows_)
    if section is None:
        return ""
    text = (
        f"Registered {section.at[:16].replace('T', ' ')} UTC, digest `{plan.digest}`: {metrics} against "
        f"`{plan.baseline}`, an effect of {100 * plan.minimum_detectable_effect:g} points at "
        f"{100 * section.power:.0f} % power{margin}, {plan.budget.tokens:,} tokens ({spent:,} counted). Other "
        f"comparisons are exploratory. Cases: all {rows_[0].number('n_expected'):.0f} tasks in {len(rows_)} arms, "
        f"seeds {', '.join(map(str, plan.seeds))}; without a hidden verdict: {lost or 'none'}."
    )
    return fill(text, WIDTH)


def table(study: Study) -> Iterator[str]:
    """Lines of the table of a page, in Markdown."""
    baseline = study.comparison.baseline
    columns = (
        "arm",
        "attempt 1, %",
        "submitted, % [95 %]",
        "won : lost",
        "room",
        *(f"− {baseline} at equal {name}" for name in EQUAL.values()),
    )
    yield f"| {' | '.join((*columns, 'p, Holm', 'verdict', 'tokens per case'))} |"
    yield "|---" * (len(columns) + 3) + "|"
    for row in study.comparison.rows:
        yield f"| {' | '.join(_cells(row))} |"


def _cells(row: Row) -> Iterator[str]:
    yield from (
        row.arm + ", an upper bound" * row.of.is_upper_bound,
        percent(row.first.value),
        share(row.final).replace(" %", ""),
    )
    attempts = row.differences.get("equal_attempts")
    yield f"{attempts.won} : {attempts.lost}" if attempts else ""
    yield percent(attempts.room) if attempts and attempts.room is not None else ""
    for name in EQUAL:
        difference = row.differences.get(name)
        yield points(difference) if difference else ""
    yield from ((p_value(attempts.p_holm), claim(attempts)) if attempts and attempts.p_holm is not None else ("", ""))
    yield f"{row.of.usage.tokens / row.final.n:,.0f}"


def draw(folder: Path) -> Sequence[Path]:
    """Write `table.csv` and `figure.svg`: the differences at equal attempts and at equal spending."""
    study = read(folder)
    return save(published(study), partial(_differences, study), folder, salt=folder.name, line_end="\n")


def _differences(study: Study, figure: Figure) -> None:
    from reflexion_lab.analysis.figures.differences import differences

    figure.set_size_inches(8.4, 1.2 + 0.9 * (len(study.comparison.rows) - 1))
    differences(study.comparison, figure.subplots())
