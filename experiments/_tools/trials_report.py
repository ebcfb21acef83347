"""Success by trial as tables and as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from experiments._tools.trial_logs import Pairing, Trials, pairings
from reflexion_lab.analysis.report.cells import interval, line, table
from reflexion_lab.analysis.stats.power import minimum_detectable

if TYPE_CHECKING:
    from rich.console import Console

    from reflexion_lab.analysis.estimators import Paired

COLUMNS = (
    "world",
    "run",
    "trial",
    "n",
    "solved",
    "share",
    "low",
    "high",
    "baseline",
    "baseline_solved",
    "gained",
    "lost",
    "difference",
    "difference_low",
    "difference_high",
    "p",
    "minimum_detectable",
)


def show(trials: Sequence[Trials], console: Console) -> None:
    """Every run's cumulative successes, then each against its baseline."""
    for run in trials:
        last = run.curve[-1]
        ends = f"{100 * last.share:.1f} % {interval(last.low, last.high)} of {last.n} environments, Wilson 95 %"
        console.print(line(f"{run.label}: {' '.join(str(rate.k) for rate in run.curve)}; {ends}"))
    for pairing in pairings(trials):
        sheet = table(
            f"{pairing.second} against {pairing.first}", "trial", "gained", "lost", "difference", "p", names=0
        )
        for trial, difference in enumerate(pairing.by_trial, 1):
            size = f"{100 * difference.difference:+.1f} {interval(difference.low, difference.high)}"
            sheet.add_row(str(trial), str(difference.repaired), str(difference.damaged), size, f"{difference.p:.2g}")
        console.print(sheet)
        start = "the very same outcomes in trial 1" if pairing.same_start else "different outcomes in trial 1"
        console.print(line(f"{_last(pairing)}; {start}; points, Newcombe 95 %; exact McNemar, one run each"))


def as_rows(trials: Sequence[Trials]) -> Iterator[dict[str, object]]:
    """A row for each run and trial, and the difference to each baseline; without one those columns are empty."""
    against: dict[str, list[Pairing]] = {}
    for pairing in pairings(trials):
        against.setdefault(pairing.second, []).append(pairing)
    for run in trials:
        for trial, rate in enumerate(run.curve, 1):
            own = {"world": run.world, "run": run.name, "trial": trial, "n": rate.n, "solved": rate.k}
            own |= {"share": round(rate.share, 4), "low": round(rate.low, 4), "high": round(rate.high, 4)}
            pairs = [pair for pair in against.get(run.label, []) if trial <= len(pair.by_trial)]
            yield from (own | _difference(pair, pair.by_trial[trial - 1]) for pair in pairs)
            if not pairs:
                yield own


def _difference(pairing: Pairing, pair: Paired) -> dict[str, object]:
    least = detectable(pair)
    return {
        "baseline": pairing.first.rpartition("/")[2],
        "baseline_solved": pair.both + pair.damaged,
        "gained": pair.repaired,
        "lost": pair.damaged,
        "difference": round(pair.difference, 4),
        "difference_low": round(pair.low, 4),
        "difference_high": round(pair.high, 4),
        "p": f"{pair.p:.3g}",
        "minimum_detectable": "" if least is None else round(least, 4),
    }


def detectable(pair: Paired) -> float | None:
    """The least difference that a test with so many discordant pairs finds with a chance of 0.8; None for none."""
    discordant = pair.repaired + pair.damaged
    return minimum_detectable(pair.n, discordant / pair.n) if 0 < discordant < pair.n else None


def _last(pairing: Pairing) -> str:
    pair = pairing.by_trial[-1]
    least = detectable(pair)
    power = "nothing would be detected" if least is None else f"{100 * least:.1f} points would be detected, power 0.8"
    return f"with {pair.repaired + pair.damaged} discordant environments at trial {len(pairing.by_trial)}, {power}"
