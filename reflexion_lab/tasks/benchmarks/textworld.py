"""Games of TextWorld as tasks: families with levels, any number of games by seed."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Positive, validated
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.environments.replay import SUCCESS
from reflexion_lab.tasks.environments.textworld import FAMILIES, games

SEEDS = 1000
"""Games of a family and seed at most."""


@validated
def textworld(families: Sequence[str], n: Positive = 20, seed: int = 0) -> Benchmark:
    """`n` games, in turn of each of `families`, `FAMILY-LEVEL`, which are their clusters.

    The first ones are always the same for a seed. The goals are each point of the score but the last, and success; a
    walkthrough is the canonical solution. Raises ConfigError: a family or level is unknown, or TextWorld is not
    installed; HarnessError: a game cannot be made.
    """
    parts = [_parts(name) for name in families]
    if not parts or n > SEEDS * len(parts):
        raise ConfigError("benchmark.load.n", n, f"1 to {SEEDS * len(parts)}, {SEEDS} games of each family")
    requests = [(*parts[k % len(parts)], seed * SEEDS + k // len(parts)) for k in range(n)]
    tasks = [
        Task(
            task_id=f"textworld/{game.family}-{game.level}/{game.seed}",
            prompt=game.beginning,
            entry_point="",
            kind="actions",
            data={"family": game.family, "level": game.level, "seed": game.seed, "sha256": game.sha256},
            visible_tests=goals(game.max_score),
            hidden_tests=goals(game.max_score),
            canonical_solution="\n".join(game.walkthrough),
            tags=(game.family,),
            cluster=f"{game.family}-{game.level}",
        )
        for game in games(requests)
    ]
    return Benchmark(name="textworld", tasks=tuple(tasks))


def goals(max_score: int) -> tuple[str, ...]:
    """Each point of the score but the last, and success: the share that is reached is the reward."""
    return (*(f"score {n}" for n in range(1, max_score)), SUCCESS)


def _parts(name: str) -> tuple[str, int]:
    family, _, level = name.rpartition("-")
    highest = FAMILIES.get(family, 0)
    if not level.isdecimal() or not 1 <= int(level) <= highest:
        known = ", ".join(f"{each}-1 to {each}-{n}" for each, n in FAMILIES.items())
        raise ConfigError("benchmark.load.families", repr(name), f"FAMILY-LEVEL: {known}")
    return family, int(level)
