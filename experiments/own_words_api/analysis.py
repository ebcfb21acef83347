"""README of this plan from its evidence: designs, words on programs, a rehearsal; `--check` names what differs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from experiments._tools.evidence import Row, read_rows
from experiments._tools.recompute import README, main, percent, readme
from experiments.own_words_api.evidence import DESIGNS, ESTIMATES, REHEARSAL, WORDS
from experiments.own_words_api.relations import VAGUE
from reflexion_lab.analysis.stats.intervals import Rate
from reflexion_lab.runner.folder.registration import FILE, read
from reflexion_lab.tasks.benchmarks.humaneval import humaneval

NEAR = 0.15
"""Relative error of an estimate that counts as near."""
ENOUGH = 0.9
"""Share of probes that are near, for a size that is recommended."""
POWER = 0.8
LEVELS = ("relation", "exception", "direction", "fallback")


def numbers(path: Path) -> list[dict[str, float]]:
    return [{name: float(value) for name, value in row.items()} for row in read_rows(path)]


def estimates(folder: Path, spent: float) -> list[dict[str, float]]:
    """By number of probed tasks: share of estimates within `NEAR`, median and 95 % of relative errors of the tokens."""
    errors: dict[int, list[float]] = {}
    for row in numbers(folder / ESTIMATES):
        errors.setdefault(int(row["probed"]), []).append(abs(row["tokens"] / spent - 1))
    return [
        {
            "probed": probed,
            "within": sum(error <= NEAR for error in each) / len(each),
            "median": median(each),
            "most": sorted(each)[int(0.95 * len(each))],
            "draws": len(each),
        }
        for probed, each in errors.items()
    ]


def words(folder: Path) -> list[dict[str, Any]]:
    """By source, shares of the programs by level of their words."""
    rows, sources = read_rows(folder / WORDS), {}
    for row in rows:
        sources.setdefault(row["source"], []).append(row)
    return [
        {
            "source": source,
            "n": len(each),
            **{name: Rate.over([level(row["kind"]) == name for row in each]) for name in LEVELS},
            "goal": Rate.over([row["goal"] == "1" for row in each]),
        }
        for source, each in sources.items()
    ]


def level(kind: str) -> str:
    """How much words of this kind say."""
    if kind.startswith("raises") or kind == "no program":
        return "exception"
    return "fallback" if kind == "fallback" else "direction" if kind in VAGUE else "relation"


def compute(folder: Path) -> Mapping[str, str]:
    study, designs = read(folder / FILE), numbers(folder / DESIGNS)
    rehearsal = numbers(folder / REHEARSAL)[0]
    table = estimates(folder, rehearsal["tokens"])
    values: dict[str, Any] = {
        "n_arms": {6: "Six"}[len(study.arms)],
        "budget": study.budget.tokens,
        "rehearsal": rehearsal,
        "dollars": f"{rehearsal['cost']:.1f}",
        "estimates": table,
        "draws": table[0]["draws"],
        "enough": min((int(row["probed"]) for row in table if row["within"] >= ENOUGH), default=study.n_tasks),
        "designs": designs,
        "plan": next(row for row in designs if row["discordance"] == study.discordance),
        "reached": max(row["discordance"] for row in designs if row["within_margin"] >= POWER),
        "words": words(folder),
        "untested": sum(not task.visible_tests for task in humaneval()),
    }
    return {README: readme(folder, **values)}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    study, cost = read(folder / FILE), numbers(folder / REHEARSAL)[0]["cost"]
    plan = next(row for row in numbers(folder / DESIGNS) if row["discordance"] == study.discordance)
    size = f"{study.n_tasks} tasks × {len(study.seeds)} seeds detect {percent(plan['detectable'])} points"
    return Row(f"planned: needs a key and about {cost:.1f} USD; {size}; rehearsed against a stand-in alone", "none")


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute))
