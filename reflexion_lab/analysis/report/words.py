"""Table of the quality of reflections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from reflexion_lab.analysis.learning.transitions import RepairShare
from reflexion_lab.analysis.learning.words import word_quality
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.cells import NONE
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.runner.solutions import Solutions

COLUMNS = ("quality", "n", "% [95 %]", "by\nchance", "repaired\nwith", "repaired\nwithout", "difference\n[95 %]")
WORDS = {"names_check": "failing check named", "names_cause": "true cause named", "is_advice": "executable advice"}
CAPTION = "By rules for English (docs/method.md); `reflexion-lab rate` compares them with people."
METHOD = (
    "Repaired: wrong programs whose next attempt read the words and passes the hidden tests. Difference: descriptive, "
    "since words with and without a quality are about other failures."
)


def quality_sheet(logs_by_arm: Mapping[str, Sequence[Log]], solutions: Callable[[], Solutions]) -> Iterator[Sheet]:
    """One row per arm and quality; nothing without a reflection, and then `solutions` is not called."""
    written = {arm: logs for arm, logs in logs_by_arm.items() if any(a.reflection for log in logs for a in log.every)}
    if written:
        programs = solutions()
        rows = tuple(row for arm, logs in written.items() for row in _rows(plain(arm), logs, programs))
        arm = () if len(written) == 1 else ("arm",)
        rows = tuple(row[1 - len(arm) :] for row in rows)
        yield Sheet(
            title="Quality of reflections; shares in %",
            columns=(*arm, *COLUMNS),
            rows=rows,
            caption=CAPTION,
            names=1 + len(arm),
            method=METHOD,
            key="quality_of_reflections",
        )


def _rows(arm: str, logs: Sequence[Log], solutions: Solutions) -> Iterator[tuple[str, ...]]:
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
