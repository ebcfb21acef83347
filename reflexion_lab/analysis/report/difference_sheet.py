"""The differences of a comparison as a sheet: each beside what could not have been told from chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reflexion_lab.analysis.comparison import Comparison
from reflexion_lab.analysis.comparison.differences import Difference
from reflexion_lab.analysis.comparison.row import Row
from reflexion_lab.analysis.figures.style import UPPER_BOUND
from reflexion_lab.analysis.report.sheets import NONE, Sheet, listed, p_value, percent, points
from reflexion_lab.io.terminal_text import plain


def difference_sheet(comparison: Comparison) -> Sheet:
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
    rows = tuple(
        line
        for row in comparison.rows
        if row.arm != comparison.baseline
        for line in _difference_lines(row, comparison.unit)
    )
    differences = [difference for row in comparison.rows for difference in (row.as_run, row.matched) if difference]
    pairs = listed(dict.fromkeys(str(difference.n) for difference in differences)) or "0"
    methods = " and ".join(dict.fromkeys(difference.method for difference in differences)) or NONE
    caption = (
        f"Points of pass@1, arm minus baseline, paired by task and seed, n = {pairs} pairs; "
        f"95 %, of each difference by itself: {methods}. "
        "p: McNemar's exact test over pairs, as if those of one task were independent. p, Holm: exact test over whole "
        "tasks, corrected for all arms at this budget. Least to tell: the split of as many discordant pairs that is "
        "just significant, and its difference; 80 %: the true difference that so many tasks find four times in five "
        f"({NONE}: none is). Detected: the interval leaves 0 out, the difference is not below the least, and p after "
        f"Holm is below 0.05. = {comparison.unit}: the dearer of the two cut to what the cheaper spent; won, lost and "
        "p are then of one draw of who is cut, the difference is the mean over all draws, and p, Holm is the larger of "
        f"that test and one that matches anew whenever the arms change places. {_registered(differences)}"
    )
    title = (
        f"Difference to {plain(comparison.baseline)}"
        if comparison.baseline
        else "No difference: all arms are upper bounds"
    )
    return Sheet(title=title, columns=columns, rows=rows, caption=caption, names=2)


def _difference_lines(row: Row, unit: str) -> Iterator[tuple[str, ...]]:
    if row.refused:
        yield (plain(row.arm), "", row.refused.replace(": ", ":\n"), *[""] * 6)
    for difference in (row.as_run, row.matched):
        if difference:
            yield (
                plain(row.arm),
                difference.budget.replace("equal", "="),
                points(difference.estimate),
                f"{difference.won}:{difference.lost}",
                p_value(difference.p),
                NONE if row.is_upper_bound else p_value(difference.p_holm),
                least(difference),
                percent(difference.minimum) if difference.minimum else NONE,
                verdict(row, difference),
            )
    if row.unmatched:
        yield (plain(row.arm), f"= {unit}", f"{unit} unknown", *[""] * 6)


def least(difference: Difference) -> str:
    """The split of the discordant pairs that is just significant, and the difference that counts: 13:3, 6.1."""
    if not difference.needed or not difference.least:
        return "none"
    return f"{difference.needed[0]}:{difference.needed[1]}, {percent(difference.least)}"


def verdict(row: Row, difference: Difference) -> str:
    """`detected`, `not detected` or `UPPER BOUND`, and behind it what else must not be overlooked."""
    text = UPPER_BOUND if row.is_upper_bound else "detected" if difference.is_detected else "not detected"
    if difference.cut and not difference.cut.is_matched:
        text += "\nnot matched"
    return f"{text}\none seed" if len(difference.seeds) == 1 else text


def _registered(differences: Sequence[Difference]) -> str:
    """Which of the comparisons were."""
    exploratory = [difference for difference in differences if difference.exploratory]
    if len(exploratory) == len(differences):
        return "All of it is exploratory: none of these comparisons was registered."
    budgets = dict.fromkeys(difference.budget for difference in differences if not difference.exploratory)
    return f"Registered: {', '.join(budgets)}, of the arms marked so below; the others are exploratory."
