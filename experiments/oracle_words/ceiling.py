"""Effects of words beside their ceiling: the effect of true words with the same model and prompt.

python -m experiments.oracle_words.ceiling RUN... [--baseline ARM]
python -m experiments.oracle_words.ceiling cases.csv [--baseline ARM]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from experiments._tools import output
from experiments.oracle_words import fieller
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison.cases import load_cases
from reflexion_lab.analysis.comparison.grouping import arms as arms_of
from reflexion_lab.analysis.report import cells
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.stats import bootstrap
from reflexion_lab.analysis.stats.clusters import by_cluster, merged
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.records import Record
from reflexion_lab.runner.folder.folder import some_folders

TRUE_WORDS = ("control:quoted", "control:oracle")
"""Sources of reflections that are true throughout."""


class Ceiling(Record, frozen=True, kw_only=True):
    """The effect of an arm's words and that of a ceiling, over the cases that both share with the baseline."""

    arm: str
    ceiling: str
    """The arm with true words."""
    attempts: int
    """Every loop is cut at this attempt, the smallest maximum of the three arms."""
    n: int
    """Cases."""
    tasks: int
    effect: Estimate
    """Points of the hidden verdict, arm minus baseline."""
    limit: Estimate
    """The same of the ceiling."""
    share: Estimate | None
    """effect / limit (`fieller`); None if the interval of `limit` does not lie above 0."""


def ceilings(arms: Sequence[Arm], baseline: Arm) -> tuple[Ceiling, ...]:
    """Every arm with words beside every arm with true words, in the order of the arms; () without a ceiling."""
    arms = [arm for arm in arms if arm.label != baseline.label and arm.feedback_source == baseline.feedback_source]
    limits = [arm for arm in arms if (sources := _sources(arm)) and sources <= {*TRUE_WORDS}]
    pairs = ((arm, limit) for limit in limits for arm in arms if arm is not limit and _sources(arm))
    return tuple(row for arm, limit in pairs for row in _row(arm, limit, baseline))


def _sources(arm: Arm) -> set[str]:
    """Sources of the reflections with words."""
    reflections = (attempt.reflection for attempts in arm.attempts.values() for attempt in attempts)
    return {reflection.source for reflection in reflections if reflection and any(reflection.texts)}


def _row(arm: Arm, limit: Arm, baseline: Arm) -> Iterator[Ceiling]:
    """Nothing if an arm has a single attempt, hence no retry, or no case is common."""
    t = min(each.max_attempts for each in (arm, limit, baseline))
    verdicts = [each.verdicts(t) for each in (arm, limit, baseline)]
    cases = sorted(verdicts[0].keys() & verdicts[1].keys() & verdicts[2].keys())
    if t < 2 or not cases:
        return
    known = merged(arm.clusters, limit.clusters, baseline.clusters)
    of_arm, of_limit, base = (
        by_cluster(((case.task_id, by_case[case]) for case in cases), known) for by_case in verdicts
    )
    effect, highest = bootstrap.difference(base, of_arm), bootstrap.difference(base, of_limit)
    yield Ceiling(
        arm=arm.label,
        ceiling=limit.label,
        attempts=t,
        n=len(cases),
        tasks=len({case.task_id for case in cases}),
        effect=effect,
        limit=highest,
        share=fieller.ratio(of_arm - base, of_limit - base) if highest.low > 0 else None,
    )


def sheet(rows: Sequence[Ceiling], baseline: str) -> Sheet:
    """One line per arm and ceiling."""
    columns: dict[str, Callable[[Ceiling], str]] = {
        "arm": lambda row: plain(row.arm),
        "ceiling": lambda row: plain(row.ceiling),
        "attempts": lambda row: str(row.attempts),
        "n": lambda row: str(row.n),
        "effect\n[95 %]": lambda row: cells.estimate(row.effect, signed=True),
        "ceiling's effect\n[95 %]": lambda row: cells.estimate(row.limit, signed=True),
        "share of the\nceiling, % [95 %]": lambda row: (
            cells.estimate(row.share, digits=0) if row.share else "undefined"
        ),
    }
    caption = (
        f"Percentage points of hidden verdicts, arm minus {plain(baseline)}, on the cases that the three arms share, "
        "loops cut at the same attempt. 95 %: adjusted t over tasks; of the share: Fieller's method, undefined if the "
        "interval of the ceiling's effect does not lie above 0."
    )
    return Sheet.of("Ceiling of words", rows, columns, caption, names=2)


def parser() -> argparse.ArgumentParser:
    top = output.script_parser("ceiling", "effects of words beside that of true words", "oracle_words")
    top.add_argument("runs", metavar="RUN", nargs="+", help="run folders, or one file of cases")
    top.add_argument("--baseline", metavar="ARM", default="feedback_only", help="default: %(default)s")
    return top


def show(options: argparse.Namespace) -> int:
    from rich.console import Console

    is_cases = options.runs[0].endswith((".csv", ".csv.gz"))
    arms = load_cases(Path(options.runs[0])) if is_cases else arms_of(some_folders(*options.runs))
    base = {arm.label: arm for arm in arms}[options.baseline]
    output.show_sheet(sheet(ceilings(arms, base), base.label), Console())
    return 0


if __name__ == "__main__":
    raise SystemExit(output.run(parser(), show, None))
