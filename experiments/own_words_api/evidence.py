"""Evidence of the plan: what its design detects, wrong programs with specific words, the error of `estimate`.

python -m experiments.own_words_api.evidence designs
python -m experiments.own_words_api.evidence words
python -m experiments.own_words_api.evidence estimates STUDY RUN_ROOT    # of a finished rehearsal
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments._tools import output
from experiments._tools.evidence import write_gzip
from experiments.own_words_api.behaviour import Words, words_on

FOLDER = Path(__file__).parent
DESIGNS, WORDS, ESTIMATES, REHEARSAL = "designs.csv", "words.csv.gz", "estimates.csv", "rehearsal.csv"
DISCORDANCES = (0.03, 0.05, 0.07, 0.08, 0.1, 0.15, 0.2)
TASKS, SEEDS, AGREEMENT, COMPARISONS, MARGIN = 164, 3, 0.4, 5, 0.05
STUDIES = 1000
BASICS = 138
MUTANTS = 4
"""At most so many mutants of a program."""
PROBED = (3, 10, 20, 40, 80)
DRAWS = 200


def designs() -> Iterator[dict[str, Any]]:
    """By discordance, the detectable difference, and how often one of 0 is shown to be within the margin."""
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
        yield {**plan, "detectable": round(largest or 1, 4), "within_margin": within / STUDIES, "studies": STUDIES}


def words() -> Iterator[dict[str, Any]]:
    """A row per distinct wrong program: where it comes from, and the kind of the words on it."""
    from reflexion_lab.analysis.run_log import Log
    from reflexion_lab.runner.config.compose import compose
    from reflexion_lab.runner.config.parts import load_sandbox
    from reflexion_lab.runner.config.record import RunConfig
    from reflexion_lab.runner.folder.folder import RunFolder
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
                load = log.manifest.config["benchmark"]["load"]
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


def estimates(study: Path, root: Path) -> Iterator[dict[str, Any]]:
    """Estimates from random probes of `PROBED` tasks beside the spending of a finished study with cached calls."""
    from reflexion_lab.analysis.run_log import Log
    from reflexion_lab.analysis.summary import summary
    from reflexion_lab.errors import DataError
    from reflexion_lab.records import Usage
    from reflexion_lab.runner.config.parts import load_sandbox
    from reflexion_lab.runner.config.record import RunConfig
    from reflexion_lab.runner.folder.folder import folders
    from reflexion_lab.runner.folder.registration import read
    from reflexion_lab.studies import estimate
    from reflexion_lab.studies.registered import cells_of

    cells = [RunConfig.of(cell.cfg) for cell in cells_of(read(study), [f"run_root={root}", "quiet=true"])]
    with closing(load_sandbox(cells[0])) as sandbox:
        probes = [estimate._probe(cell, TASKS, "estimates", sandbox) for cell in cells]
    whole = estimate._summed(probes)
    spent = {
        "calls": whole.total.calls.mean,
        "tokens": whole.total.tokens.mean,
        "cost": round(whole.total.cost.mean, 4),
    }
    logs = [Log.read(folder) for folder in folders(*sorted(root.glob("2*")))]
    counted = sum((usage for log in logs for usage in summary(log).usage.values()), Usage())
    if len(logs) != len(cells) or counted.tokens != whole.apart.tokens.mean:
        raise DataError(
            str(root), f"{counted.tokens:,} tokens", f"{whole.apart.tokens.mean:,.0f}, those of a finished run"
        )
    rehearsal = {"runs": len(logs), **spent, "counted": counted.tokens}
    output.print_written([output.write_csv(FOLDER / REHEARSAL, [rehearsal])])
    for number in PROBED:
        for draw in range(DRAWS):
            parts = []
            for cell, probe in zip(cells, probes, strict=True):  # arms share the tasks of a seed, as in `estimate`
                chosen = random.Random(f"{number}:{draw}:{cell.seed}").sample(range(TASKS), number)
                parts.append(probe._replace(loops=[probe.loops[n] for n in chosen]))
            part = estimate._summed(parts)
            total = part.total
            yield {
                "probed": number,
                "draw": draw,
                "tokens": round(total.tokens.mean),
                "cost": round(total.cost.mean, 4),
            }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.own_words_api.evidence", description=__doc__)
    parser.add_argument("kind", choices=("designs", "words", "estimates"))
    parser.add_argument("paths", nargs="*", type=Path, metavar="STUDY RUN_ROOT")
    options = parser.parse_args(argv)
    rows = {"designs": designs, "words": words, "estimates": estimates}[options.kind](*options.paths)
    if options.kind == "words":
        every = [*rows]
        written = write_gzip(FOLDER / WORDS, [*every[0]], [[*row.values()] for row in every])
    else:
        written = output.write_csv(FOLDER / {"designs": DESIGNS, "estimates": ESTIMATES}[options.kind], [*rows])
    output.print_written([written])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
