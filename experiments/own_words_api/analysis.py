"""README of this plan from its evidence: designs, words on programs, a rehearsal; `--check` names what differs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from experiments._tools.evidence import Row, read_rows
from experiments._tools.recompute import README, main, percent, readme
from experiments.own_words_api.evidence import COSTS, DESIGNS, WORDS
from experiments.own_words_api.relations import VAGUE
from reflexion_lab.analysis.stats.bootstrap import rate
from reflexion_lab.runner.folder.registration import FILE, read
from reflexion_lab.tasks.benchmarks.humaneval import humaneval

NEAR = 0.15
"""Relative error of an estimate that counts as near."""
ENOUGH = 0.9
"""Share of probes that are near, for a size that is recommended."""
POWER = 0.8
PROBED = (3, 10, 20, 40, 60, 80)
DRAWS = 1000
LEVELS = ("relation", "exception", "direction", "fallback")


def numbers(path: Path) -> list[dict[str, float]]:
    return [{name: float(value) for name, value in row.items()} for row in read_rows(path)]


def estimates(costs: Sequence[Mapping[str, str]], n_tasks: int) -> list[dict[str, float]]:
    """By number of probed tasks per seed, the errors of estimates from random probes, relative to the tokens paid.

    As `reflexion-lab estimate` does, an estimate scales the mean of the probed tasks, which are others at each seed;
    calls that arms share in a retry, half a per cent, are counted twice here.
    """
    tokens: dict[str, list[int]] = {}
    for row in costs:
        tokens.setdefault(row["seed"], []).append(int(row["tokens"]))
    spent = sum(map(sum, tokens.values()))
    rows = []
    for probed in PROBED:
        rng, errors = random.Random(probed), []
        for _ in range(DRAWS):
            total = sum(sum(rng.sample(of_seed, probed)) for of_seed in tokens.values()) * n_tasks / probed
            errors.append(abs(total / spent - 1))
        within = sum(error <= NEAR for error in errors) / DRAWS
        most = sorted(errors)[int(0.95 * DRAWS)]
        rows.append({"probed": probed, "within": within, "median": median(errors), "most": most})
    return rows


def words(folder: Path) -> list[dict[str, Any]]:
    """By source, shares of the programs by level of their words, with intervals over tasks."""
    sources: dict[str, list[dict[str, str]]] = {}
    for row in read_rows(folder / WORDS):
        sources.setdefault(row["source"], []).append(row)
    return [
        {
            "source": source,
            "n": len(each),
            "tasks": len({row["task"] for row in each}),
            **{name: rate((row["task"], level(row["kind"]) == name) for row in each) for name in LEVELS},
            "goal": rate((row["task"], row["goal"] == "1") for row in each),
        }
        for source, each in sources.items()
    ]


def totals(costs: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """Calls, tokens and cost paid, and the tokens counted arm by arm."""
    return {name: sum(float(row[name]) for row in costs) for name in ("calls", "tokens", "cost", "counted")}


def level(kind: str) -> str:
    """How much words of this kind say."""
    if kind.startswith("raises") or kind == "no program":
        return "exception"
    return "fallback" if kind == "fallback" else "direction" if kind in VAGUE else "relation"


def compute(folder: Path) -> Mapping[str, str]:
    study, designs = read(folder / FILE), numbers(folder / DESIGNS)
    costs = read_rows(folder / COSTS)
    rehearsal = totals(costs)
    table = estimates(costs, study.n_tasks)
    enough = next(row for row in table if row["within"] >= ENOUGH)
    values: dict[str, Any] = {
        "n_arms": {6: "Six"}[len(study.arms)],
        "budget": study.budget.tokens,
        "rehearsal": rehearsal,
        "dollars": f"{rehearsal['cost']:.1f}",
        "estimates": table,
        "draws": DRAWS,
        "enough": enough["probed"],
        "near": enough["within"],
        "part": enough["probed"] / study.n_tasks,
        "least": table[0],
        "designs": designs,
        "plan": next(row for row in designs if row["discordance"] == study.discordance),
        "reached": max(row["discordance"] for row in designs if row["within_margin"] >= POWER),
        "words": words(folder),
        "untested": sum(not task.visible_tests for task in humaneval()),
    }
    return {README: readme(folder, **values)}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    study, cost = read(folder / FILE), totals(read_rows(folder / COSTS))["cost"]
    plan = next(row for row in numbers(folder / DESIGNS) if row["discordance"] == study.discordance)
    size = (
        f"{study.n_tasks} tasks × {len(study.seeds)} seeds detect {percent(plan['detectable'])} points, and show one "
        f"difference of 0 to lie within ±5 points in {percent(plan['within_margin'], 0)} % of studies, all five in "
        f"{percent(plan['all_within'], 0)} %"
    )
    return Row(f"planned: needs a key and about {cost:.1f} USD; {size}; rehearsed against a stand-in alone", "none")


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute))
