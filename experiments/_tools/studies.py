"""What registered comparisons share: arms of `cases.csv.gz`, their differences, and the table of their page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments._tools.evidence import CASES
from experiments._tools.output import save
from experiments._tools.recompute import README, TABLE, csv_text, percent, points, readme, share
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.cases import load_cases
from reflexion_lab.analysis.comparison import Comparison, compare
from reflexion_lab.analysis.comparison.row import Row
from reflexion_lab.analysis.report.cells import p_value
from reflexion_lab.analysis.report.documents import rows
from reflexion_lab.runner.folder.registration import FILE as STUDY
from reflexion_lab.runner.folder.registration import Registration
from reflexion_lab.runner.folder.registration import read as read_registration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EQUAL = {"equal_attempts": "attempts", "equal_completion_tokens": "completion tokens", "equal_tokens": "tokens"}
"""Budgets of the table by key of `Row.differences`."""


class Study(NamedTuple):
    """The evidence of a registered study."""

    registration: Registration
    arms: tuple[Arm, ...]
    comparison: Comparison

    def row(self, arm: str) -> Row:
        return next(row for row in self.comparison.rows if row.arm == arm)

    @property
    def exploratory(self) -> list[str]:
        """Arms of which a run is not registered."""
        return [row.arm for row in self.comparison.rows if row.study != self.registration.name]


@cache
def read(folder: Path) -> Study:
    """The study of a folder, at its equivalence margin; one seed may be enough."""
    registration = read_registration(folder / STUDY)
    arms = load_cases(folder / CASES)
    margin = registration.equivalence_margin or None
    comparison = compare(arms, registration.baseline, one_seed=True, margin=margin)
    return Study(registration, tuple(arms), comparison)


def page(folder: Path, study: Study, **values: Any) -> Mapping[str, str]:
    """Texts of `table.csv` and the README; the template reads `arms`, `study`, `table` and `values`."""
    known = {
        "arms": {row.arm: row for row in study.comparison.rows},
        "study": study.registration,
        "exploratory": study.exploratory,
        "table": "\n".join(table(study)),
        "p_value": p_value,
    }
    return {TABLE: csv_text(rows(study.comparison)), README: readme(folder, **known, **values)}


def table(study: Study) -> Iterator[str]:
    """Lines of the table of a page, in Markdown."""
    baseline = study.comparison.baseline
    columns = (
        "arm",
        "attempt 1, %",
        "submitted, % [95 %]",
        "won : lost",
        *(f"− {baseline} at equal {name}" for name in EQUAL.values()),
    )
    yield f"| {' | '.join((*columns, 'p, Holm', 'verdict', 'tokens per case'))} |"
    yield "|---" * (len(columns) + 3) + "|"
    for row in study.comparison.rows:
        yield f"| {' | '.join(_cells(row))} |"


def _cells(row: Row) -> Iterator[str]:
    yield from (
        row.arm + ", an upper bound" * row.is_upper_bound,
        percent(row.first.value),
        share(row.final).replace(" %", ""),
    )
    attempts = row.equal.get("attempts")
    yield f"{attempts.won} : {attempts.lost}" if attempts else ""
    for name in EQUAL:
        difference = row.differences.get(name)
        yield points(difference.estimate) if difference else ""
    yield from ((p_value(attempts.p_holm), attempts.verdict) if attempts and not row.is_upper_bound else ("", ""))
    yield f"{row.spent.usage.tokens / row.n:,.0f}"


def draw(folder: Path) -> Sequence[Path]:
    """Write `table.csv` and `figure.svg`: the differences at equal attempts and at equal spending."""
    study = read(folder)
    return save(rows(study.comparison), partial(_differences, study), folder, salt=folder.name, line_end="\n")


def _differences(study: Study, figure: Figure) -> None:
    from reflexion_lab.analysis.figures.differences import differences

    figure.set_size_inches(8.4, 1.2 + 0.9 * (len(study.comparison.rows) - 1))
    differences(study.comparison, figure.subplots())
