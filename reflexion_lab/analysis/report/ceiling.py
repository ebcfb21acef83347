"""The ceiling of words as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reflexion_lab.analysis.comparison.ceiling import Ceiling
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.io.terminal_text import plain


def ceiling_sheet(rows: Sequence[Ceiling], baseline: str) -> Sheet:
    """One line per arm and ceiling."""
    columns: dict[str, Callable[[Ceiling], str]] = {
        "arm": lambda row: plain(row.arm),
        "ceiling": lambda row: plain(row.ceiling),
        "attempts": lambda row: str(row.attempts),
        "n": lambda row: str(row.n),
        "effect\n[95 %]": lambda row: cells.estimate(row.effect, signed=True),
        "ceiling's effect\n[95 %]": lambda row: cells.estimate(row.limit, signed=True),
        "share of the\nceiling, % [95 %]": _share,
    }
    caption = (
        f"Percentage points of hidden verdicts, arm minus {plain(baseline)}, loops cut at the same attempt. 95 %: "
        "adjusted t over tasks; of the share: Fieller's method."
    )
    method = (
        "n: the cases that the three arms share. Ceiling: an arm whose retries read "
        "the canonical solution (quoted) or what differs from it (oracle), hence the most that words can do with this "
        "model and prompt. Share: ratio of the two differences by Fieller's method over tasks; undefined if the "
        "interval of the ceiling's effect does not lie above 0."
    )
    return Sheet.of("Ceiling of words", rows, columns, caption, names=2, method=method)


def _share(row: Ceiling) -> str:
    return cells.estimate(row.share, digits=0) if row.share else "undefined"
