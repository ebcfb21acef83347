"""Table, figure and README of this experiment, from its cases and memories alone; `--check` names what differs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments._tools.evidence import Row
from experiments._tools.output import legend, plain_axes, save
from experiments._tools.recompute import README, TABLE, csv_text, main, points, readme
from experiments.four_states.cases import EVALUATED, Case, Memory, read
from reflexion_lab.analysis.learning.memory import Effect, effect
from reflexion_lab.analysis.stats.intervals import Estimate, t_quantile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {
    "none": "empty memory",
    "ace": "ace",
    "dynamic_cheatsheet": "dynamic_cheatsheet",
    "full_history": "full_history, 4,000 tokens",
    "filler_ace": "filler for ace",
}
CURATORS = tuple(NAMES)[1:]
HALF = 25
"""Rounds that the half roll-back keeps."""
WITHIN = 0.02


class Compared(NamedTuple):
    """Two states of memory, each with its draws. Draws 1 and 3 are of empty memory, 2 and 4 of all that was learnt."""

    name: str
    before: tuple[str, int]
    after: tuple[str, int]


TRANSITIONS = (
    Compared("1 to 2: applied", ("before", 1), ("applied", 2)),
    Compared("2 to 3: rolled back", ("applied", 2), ("rolled_back", 3)),
    Compared("3 to 4: applied again", ("rolled_back", 3), ("applied_again", 4)),
)
EMPTY = Compared("A/A: state 3 − 1", ("before", 1), ("rolled_back", 3))
AGAIN = Compared("A/A: state 4 − 2", ("applied", 2), ("applied_again", 4))
SHARED = (
    Compared("state 3 − 1, shared draws", ("before", 1), ("rolled_back", 1)),
    Compared("state 4 − 2, shared draws", ("applied", 2), ("applied_again", 2)),
)
PART = Compared("half rolled back", ("applied", 2), ("half", 5))


@cache
def evidence(folder: Path) -> tuple[dict[tuple[str, str, int], dict[tuple[int, str], Case]], list[Memory]]:
    """Cases by curator, state and draws, then by world and task; and memories."""
    cases, memories = read(folder)
    states: dict[tuple[str, str, int], dict[tuple[int, str], Case]] = {}
    for case in cases:
        states.setdefault((case.curator, case.state, case.draws), {})[case.place] = case
    return states, memories


def cases_of(folder: Path, curator: str, state: tuple[str, int]) -> dict[tuple[int, str], Case]:
    """Without memory no curator matters: there is one `before` for all memories."""
    name = "none" if state[0] == "before" else CURATORS[0] if curator == "none" else curator
    return evidence(folder)[0][name, *state]


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """A row per curator and comparison."""
    return list(_rows(folder))


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    yield _row(folder, "noise", "none", EMPTY.name, EMPTY)
    for curator in CURATORS:
        kinds = {"transition": TRANSITIONS, "noise": (AGAIN,), "shared": SHARED}
        for kind, compared in kinds.items():
            for each in compared:
                yield _row(folder, kind, curator, each.name, each)
        if (curator, *PART.after) in evidence(folder)[0]:
            for name, is_kept in (("families learnt in rounds that were kept", True), ("families rolled back", False)):
                yield _row(folder, "half", curator, name, PART, lambda case, kept=is_kept: (case.turn < HALF) == kept)


def _row(
    folder: Path, kind: str, curator: str, name: str, compared: Compared, keeps: Any = lambda case: True
) -> dict[str, Any]:
    before, after = (cases_of(folder, curator, state) for state in compared[1:])
    pairs = [(before[place], case) for place, case in after.items() if keeps(case)]
    measured = _effect((second, second.passed - first.passed) for first, second in pairs)
    planted = _effect((second, second.chance - first.chance) for first, second in pairs).value
    error = _effect((second, second.passed - first.passed - (second.chance - first.chance)) for first, second in pairs)
    numbers = {
        "rate_before": sum(first.passed for first, _ in pairs) / len(pairs),
        "rate_after": sum(second.passed for _, second in pairs) / len(pairs),
        "measured": measured.value,
        "low": measured.low,
        "high": measured.high,
        "planted": planted,
        "error": error.value,
        "error_low": error.low,
        "error_high": error.high,
    }
    counts = {"n": len(pairs), "families": measured.clusters}
    return {"kind": kind, "curator": curator, "compared": name, **counts} | {
        name: round(number, 4) for name, number in numbers.items()
    }


def _effect(values: Iterable[tuple[Case, float]]) -> Effect:
    """Mean over tasks with the interval over families."""
    every = list(values)
    clusters = {f"{case.world}/{case.task}": case.family for case, _ in every}
    estimate = effect([(f"{case.world}/{case.task}", 0, float(value)) for case, value in every], clusters)
    assert estimate
    return estimate


class Bytes(NamedTuple):
    """How many runs have the prompts of another state, byte for byte, and the same items."""

    runs: int
    prompts: int
    items: int


def bytes_of(memories: Sequence[Memory], curator: str, state: str, earlier: str) -> Bytes:
    """Runs of a state whose prompts and items are those of an earlier state in the same world."""
    names = {"none"} if earlier == "before" else {curator}
    reference = {each.world: each for each in memories if each.curator in names and each.state == earlier}
    own = [each for each in memories if each.curator == curator and each.state == state]
    return Bytes(
        len(own),
        sum(each.prompts == reference[each.world].prompts for each in own),
        sum(each.digest == reference[each.world].digest for each in own),
    )


def states_shown(folder: Path) -> int:
    """Distinct outcomes of a state among those that the transitions compare."""
    states = {(curator, state) for curator in CURATORS for each in TRANSITIONS for state in each[1:]}
    return len(
        {frozenset((place, case.passed) for place, case in cases_of(folder, *state).items()) for state in states}
    )


def chance_within(row: Mapping[str, Any]) -> float:
    """How often sampling error alone leaves a difference within `WITHIN` of its true value: normal, same width."""
    return math.erf(WITHIN / (half_width(row) / t_quantile(row["families"] - 1)) / math.sqrt(2))


def estimate(row: Mapping[str, Any], prefix: str = "") -> Estimate:
    value = row["error" if prefix else "measured"]
    return Estimate(value=value, low=row[f"{prefix}low"], high=row[f"{prefix}high"])


def signed(value: float) -> str:
    return points(Estimate(value=value, low=value, high=value)).partition(" [")[0]


def half_width(row: Mapping[str, Any]) -> float:
    return float(row["error_high"] - row["error_low"]) / 2


def compute(folder: Path) -> Mapping[str, str]:
    rows, (states, memories) = rows_of(folder), evidence(folder)
    transitions, noise, shared, half = (
        [row for row in rows if row["kind"] == kind] for kind in ("transition", "noise", "shared", "half")
    )
    digests = {
        curator: (
            bytes_of(memories, curator, "rolled_back", "before"),
            bytes_of(memories, curator, "applied_again", "applied"),
        )
        for curator in CURATORS
    }
    n = len(states["none", "before", 1])
    repeated = {(curator, "rolled_back", 3) for curator in CURATORS[1:]}
    deviations = [deviation(own) for state, own in states.items() if len(own) == n and state not in repeated]
    values = {
        "rows": rows,
        "transitions": transitions,
        "noise": noise,
        "shared": shared,
        "half": half,
        "at": {(row["curator"], row["compared"]): row for row in rows},
        "steps": [each.name for each in TRANSITIONS],
        "within": sum(abs(row["error"]) <= WITHIN for row in transitions),
        "held": sum(row["error_low"] <= 0 <= row["error_high"] for row in transitions),
        "noise_held": sum(row["low"] <= 0 <= row["high"] for row in noise),
        "largest": max(transitions, key=lambda row: abs(row["error"])),
        "widest": max(map(half_width, transitions)),
        "narrowest": min(map(half_width, transitions)),
        "by_chance": fmean(map(chance_within, transitions)),
        "distinct": states_shown(folder),
        "digests": digests,
        "runs": sum(each.runs for both in digests.values() for each in both),
        "equal": sum(min(each.prompts, each.items) for both in digests.values() for each in both),
        "worlds": len({each.world for each in memories}),
        "missed": [row for row in noise if not row["low"] <= 0 <= row["high"]],
        "deviations": deviations,
        "largest_z": max(deviations, key=abs),
        "dispersion": sum(z**2 for z in deviations) / len(deviations),
        "tokens": {curator: _tokens(memories, curator) for curator in CURATORS},
        "NAMES": NAMES,
        "estimate": estimate,
        "signed": signed,
        "half_width": half_width,
    }
    return {TABLE: csv_text(rows), README: readme(folder, **values)}


def deviation(cases: Mapping[tuple[int, str], Case]) -> float:
    """Solved cases less expected ones, in standard deviations."""
    variance = sum(case.chance * (1 - case.chance) for case in cases.values())
    return sum(case.passed - case.chance for case in cases.values()) / math.sqrt(variance)


def _tokens(memories: Sequence[Memory], curator: str) -> tuple[float, float]:
    """Mean items, and tokens of a prompt, once memory is applied."""
    own = [each for each in memories if each.curator == curator and each.state == "applied"]
    return sum(each.items for each in own) / len(own), sum(each.tokens for each in own) / len(own) / EVALUATED


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    rows, (_, memories) = rows_of(folder), evidence(folder)
    at = {(row["curator"], row["compared"]): row for row in rows}
    steps = [row for row in rows if row["kind"] == "transition"]
    noise = [row for row in rows if row["kind"] == "noise"]
    ends = [signed(end(row["measured"] for row in noise)) for end in (min, max)]
    held = sum(row["low"] <= 0 <= row["high"] for row in noise)
    gains = "; ".join(
        f"{curator} {', '.join(signed(at[curator, each.name]['measured']) for each in TRANSITIONS)} points "
        f"(planted ±{abs(100 * at[curator, TRANSITIONS[0].name]['planted']):.1f})"
        for curator in ("ace", "dynamic_cheatsheet")
    )
    equal = [bytes_of(memories, curator, *pair) for curator in CURATORS for pair in PAIRS]
    text = (
        "yes, for a simulated student: items and prompts after a roll-back and after a second application equal those "
        f"before, byte for byte, in {sum(min(each.prompts, each.items) for each in equal)} of "
        f"{sum(each.runs for each in equal)} runs, so that the planted gain goes and comes back: {gains} when rules "
        f"are applied, rolled back and applied again. A/A {ends[0]} to {ends[1]} points, {held} of {len(noise)} "
        "intervals hold 0"
    )
    return Row(
        text, f"{steps[0]['n']} later tasks of {steps[0]['families']} families in each state, {len(CURATORS)} memories"
    )


PAIRS = (("rolled_back", "before"), ("applied_again", "applied"))


def draw(folder: Path) -> Sequence[Path]:
    rows = rows_of(folder)
    return save(rows, partial(_draw, rows), folder, salt="four_states", line_end="\n")


def _draw(rows: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    """Solved tasks by state, and beside them the error of each difference."""
    from reflexion_lab.analysis.figures.style import COLOURS, FAINT, INK, MARKERS

    figure.set_size_inches(9.2, 4.2)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for number, curator in enumerate(NAMES):
        own = [row for row in rows if row["curator"] == curator and row["kind"] in ("transition", "noise")]
        look: dict[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number], "markeredgecolor": "white"}
        if curator != "none":
            rates = [own[0]["rate_before"], *(row["rate_after"] for row in own if row["kind"] == "transition")]
            places = [place + (number - 2.5) * 0.09 for place in range(4)]
            left.plot(places, [100 * rate for rate in rates], **look, label=NAMES[curator])
        else:
            left.plot([], [], **look, linestyle="", label=f"{NAMES[curator]} (A/A 3−1)")
        for place, row in enumerate(own, start=4 * (curator == "none")):
            at = place + (number - 2.5) * 0.16 * (curator != "none")
            right.vlines(at, 100 * row["error_low"], 100 * row["error_high"], color=COLOURS[number], alpha=0.45)
            right.plot(at, 100 * row["error"], **look, linestyle="", markersize=5)
    left.set_xticks(range(4), ["1\nbefore", "2\napplied", "3\nrolled back", "4\napplied again"], color=INK)
    left.set_xlim(-0.3, 3.3)
    left.set_ylim(0, 100)
    left.set_ylabel("later tasks solved, %", color=INK)
    right.set_xticks(range(5), ["1→2", "2→3", "3→4", "A/A\n4−2", "A/A\n3−1"], color=INK)
    right.axhline(0, color=INK, linewidth=0.8)
    for end in (-2, 2):
        right.axhline(end, color=FAINT, linewidth=1)
    right.set_ylabel("measured less planted, points, 95 %", color=INK)
    for ax in (left, right):
        plain_axes(ax, grid="y")
    legend(left, loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=3, labelcolor=INK, fontsize=9, columnspacing=1)


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=draw))
