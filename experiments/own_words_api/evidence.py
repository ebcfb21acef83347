"""Evidence of the plan: what its design detects, the words on wrong programs, the cost of each task.

python -m experiments.own_words_api.evidence designs
python -m experiments.own_words_api.evidence words
python -m experiments.own_words_api.evidence costs RUN_ROOT    # of a finished rehearsal
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from experiments._tools import output
from experiments._tools.evidence import write_gzip
from experiments.own_words_api.behaviour import Words, words_on

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

FOLDER = Path(__file__).parent
DESIGNS, WORDS, COSTS = "designs.csv.gz", "words.csv.gz", "costs.csv.gz"
DISCORDANCES = (0.03, 0.05, 0.07, 0.08, 0.1, 0.15, 0.2)
TASKS, SEEDS, AGREEMENT, COMPARISONS, MARGIN = 164, 3, 0.4, 5, 0.05
STUDIES = 1000
TOGETHER = 4000
"""Simulated studies of all comparisons together."""
BASICS = 138
MUTANTS = 4
"""At most so many mutants of a program."""


def designs() -> Iterator[dict[str, Any]]:
    """By discordance, the detectable difference, and how often differences of 0 are within the margin."""
    import numpy as np

    from reflexion_lab.analysis.stats.intervals import EQUIVALENCE, adjusted, agreements, t_quantile
    from reflexion_lab.analysis.stats.power import Design, _studies, detectable

    for discordance in DISCORDANCES:
        plan: dict[str, Any] = {"tasks": TASKS, "seeds": SEEDS, "discordance": discordance, "agreement": AGREEMENT}
        design = Design(**plan, comparisons=COMPARISONS)
        within = 0
        for cases in _studies(design, STUDIES, 0):
            centres, errors = adjusted(np.nanmean(cases, axis=-1), agreements(cases))
            reach = t_quantile(TASKS - 1, EQUIVALENCE) * errors
            within += int((np.abs(centres) + reach < MARGIN).sum())
        largest = detectable(design, studies=STUDIES, largest=0.2)
        yield {
            **plan, "detectable": round(largest or 1, 4), "within_margin": within / STUDIES, "studies": STUDIES,
            "all_within": all_within(discordance), "studies_of_all": TOGETHER,
        }  # fmt: skip


def all_within(discordance: float, comparisons: int = COMPARISONS, studies: int = TOGETHER) -> float:
    """How often all comparisons with one baseline show differences of 0 to be within the margin.

    Each arm departs from what is usual in a case with the same chance, on its own, so that two arms differ in a share
    `discordance` of the cases; in `AGREEMENT` of the tasks its seeds depart together.
    """
    import numpy as np

    from reflexion_lab.analysis.stats.power import _are_equivalent

    departs = (1 - np.sqrt(1 - 2 * discordance)) / 2
    rng = np.random.default_rng(0)

    def outcomes() -> NDArray[float64]:
        alike, common, own = (rng.random((studies, TASKS, width)) for width in (1, 1, SEEDS))
        return np.asarray(np.where(alike < AGREEMENT, common, own) < departs, float)

    baseline = outcomes()
    inside = [_are_equivalent(outcomes() - baseline, MARGIN) for _ in range(comparisons)]
    return float(np.all(inside, axis=0).mean())


def words() -> Iterator[dict[str, Any]]:
    """A row per distinct wrong program: where it comes from, and the kind of the words on it."""
    from reflexion_lab.analysis.run_log import Log
    from reflexion_lab.runner.config.compose import compose
    from reflexion_lab.runner.config.parts import load_sandbox
    from reflexion_lab.runner.config.record import RunConfig
    from reflexion_lab.runner.folder.folder import RunFolder
    from reflexion_lab.runner.folder.manifest import value_at
    from reflexion_lab.studies.replay import bundle
    from reflexion_lab.tasks.benchmarks.basics import basics
    from reflexion_lab.tasks.benchmarks.humaneval import humaneval
    from reflexion_lab.tasks.benchmarks.mutants import mutants
    from reflexion_lab.tasks.evaluators.unit_tests import run_tests

    with TemporaryDirectory() as place:
        scratch = Path(place)
        config = RunConfig.of(compose(f"run_root={scratch / 'runs'}", "tracker=none"))
        with closing(load_sandbox(config)) as sandbox:
            known = set[tuple[str, str]]()
            for path in sorted(FOLDER.parent.glob("*/*.bundle.zip")):
                folder = scratch / path.parent.name / path.stem
                bundle.unpack(bundle.read(path)[1], folder)
                log = Log.read(RunFolder.existing(folder))
                load = value_at(log.manifest.config, "benchmark.load")
                tasks = {task.task_id: task for task in basics(n=load["n"], seed=load["seed"])}
                for attempts in log.attempts.values():
                    for attempt in attempts:
                        program, task = attempt.trajectory.solution, tasks[attempt.task_id]
                        if not attempt.evaluation.passed and (task.prompt, program) not in known:
                            known.add((task.prompt, program))
                            yield _row("SmolLM2, basics", task.task_id, words_on(sandbox, task, program))
            origins = {"mutants, basics": basics(n=BASICS, seed=5), "mutants, HumanEval": humaneval().tasks}
            for source, originals in origins.items():
                for task in originals:
                    program = task.canonical_program
                    first = program.count("\n", 0, program.rfind('"""')) + 1
                    for mutant in mutants(program, first, MUTANTS, random.Random(task.task_id)):
                        if not run_tests(sandbox, task, mutant.program, task.hidden_tests).passed:
                            yield _row(source, task.task_id, words_on(sandbox, task, mutant.program))


def _row(source: str, task: str, known: Words) -> dict[str, Any]:
    return {"source": source, "task": task, "kind": known.kind, "goal": int(bool(known.goal))}


def costs(root: Path) -> Iterator[dict[str, Any]]:
    """What each task cost at each seed of a finished rehearsal: shared calls are paid once, and counted by arm.

    Arms share the first attempt; own words and their filler share the first reflection.
    """
    from reflexion_lab.analysis.run_log import Log
    from reflexion_lab.records import Usage
    from reflexion_lab.runner.folder.folder import folders

    paid: dict[tuple[int, str], dict[tuple[str, int, str], Usage]] = {}
    counted: dict[tuple[int, str], Usage] = {}
    for log in (Log.read(folder) for folder in folders(*sorted(root.glob("2*")))):
        for task, attempts in log.attempts.items():
            case = log.manifest.seed, task
            for attempt in attempts:
                for role, usage in attempt.usage.items():
                    arm = "" if attempt.number == 1 else str(log.manifest.config["arm"])
                    if usage.calls:
                        paid.setdefault(case, {}).setdefault((role, attempt.number, arm), usage)
                    counted[case] = counted.get(case, Usage()) + usage
    for (seed, task), calls in sorted(paid.items()):
        total = sum(calls.values(), Usage())
        yield {
            "seed": seed,
            "task": task,
            "calls": total.calls,
            "tokens": total.tokens,
            "cost": f"{total.cost:.6f}",
            "counted": counted[seed, task].tokens,
        }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.own_words_api.evidence", description=__doc__)
    parser.add_argument("kind", choices=("designs", "words", "costs"))
    parser.add_argument("paths", nargs="*", type=Path, metavar="RUN_ROOT")
    options = parser.parse_args(argv)
    kinds: dict[str, Callable[..., Iterator[dict[str, Any]]]]
    kinds = {"designs": designs, "words": words, "costs": costs}
    rows = kinds[options.kind](*options.paths)
    every = [*rows]
    path = FOLDER / f"{options.kind}.csv.gz"
    output.print_written([write_gzip(path, [*every[0]], [[*row.values()] for row in every])])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
