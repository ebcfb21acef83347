"""The differences of a comparison as a sheet: each beside what could not have been told from chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.comparison.differences import Difference
from reflexion_lab.analysis.comparison.row import Row
from reflexion_lab.analysis.figures.style import UPPER_BOUND
from reflexion_lab.analysis.report.sheets import NONE, Sheet, listed, p_value, percent, points
from reflexion_lab.io.terminal_text import plain


def difference_sheet(found: Comparison) -> Sheet:
    """Two lines an arm: as run, and at an equal budget."""
    columns = (
        "arm",
        "budget",
        "difference\n[95 %]",
        "won:\nlost",
        "p",
        "p,\nHolm",
        "least\nto tell",
        "80 %",
        "verdict",
    )
    rows = tuple(line for row in found.rows if row.arm != found.baseline for line in _difference_lines(row, found.unit))
    made = [one for row in found.rows for one in (row.as_run, row.matched) if one]
    pairs = listed(dict.fromkeys(str(one.n) for one in made)) or "0"
    caption = (
        f"Points of pass@1, arm minus baseline, paired by task and seed, n = {pairs} pairs; "
        f"95 %, of each difference by itself: {' and '.join(dict.fromkeys(one.method for one in made)) or NONE}. "
        "p: McNemar's exact test over pairs, as if those of one task were independent. p, Holm: exact test over whole "
        "tasks, corrected for all arms at this budget. Least to tell: the split of as many discordant pairs that is "
        "just significant, and its difference; 80 %: the true difference that so many tasks find four times in five "
        f"({NONE}: none is). Detected: the interval leaves 0 out, the difference is not below the least, and p after "
        f"Holm is below 0.05. = {found.unit}: the dearer of the two cut to what the cheaper spent; won, lost and p are "
        "then of one draw of who is cut, the difference is the mean over all draws, and p, Holm is the larger of that "
        f"test and one that matches anew whenever the arms change places. {_registered(made)}"
    )
    title = f"Difference to {plain(found.baseline)}" if found.baseline else "No difference: all arms are upper bounds"
    return Sheet(title=title, columns=columns, rows=rows, caption=caption, names=2)


def _difference_lines(row: Row, unit: str) -> Iterator[tuple[str, ...]]:
    if row.refused:
        yield (plain(row.arm), "", row.refused.replace(": ", ":\n"), *[""] * 6)
    for one in (row.as_run, row.matched):
        if one:
            yield (
                plain(row.arm),
                one.budget.replace("equal", "="),
                points(one.estimate),
                f"{one.won}:{one.lost}",
                p_value(one.p),
                NONE if row.is_upper_bound else p_value(one.p_holm),
                least(one),
                percent(one.minimum) if one.minimum else NONE,
                verdict(row, one),
            )
    if row.unmatched:
        yield (plain(row.arm), f"= {unit}", f"{unit} unknown", *[""] * 6)


def least(one: Difference) -> str:
    """The split of the discordant pairs that is just significant, and the difference that counts: 13:3, 6.1."""
    return f"{one.needed[0]}:{one.needed[1]}, {percent(one.least)}" if one.needed and one.least else "none"


def verdict(row: Row, one: Difference) -> str:
    """`detected`, `not detected` or `UPPER BOUND`, and behind it what else must not be overlooked."""
    said = UPPER_BOUND if row.is_upper_bound else "detected" if one.is_detected else "not detected"
    if one.cut and not one.cut.is_matched:
        said += "\nnot matched"
    return f"{said}\none seed" if len(one.seeds) == 1 else said


def _registered(made: Sequence[Difference]) -> str:
    """Which of the comparisons were."""
    exploratory = [one for one in made if one.exploratory]
    if len(exploratory) == len(made):
        return "All of it is exploratory: none of these comparisons was registered."
    budgets = dict.fromkeys(one.budget for one in made if not one.exploratory)
    return f"Registered: {', '.join(budgets)}, of the arms marked so below; the others are exploratory."
