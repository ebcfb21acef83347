"""`python -m experiments.dead_units.simulated --runs DIR`: both stages with the simulated student.

Arms are those of study.yaml. Writes `cases.csv.gz`: the second stage, at `SEEDS` other than that of the failed draws.
"""

from __future__ import annotations

import argparse
import gzip
import shlex
from collections.abc import Sequence
from pathlib import Path

from experiments._tools import output
from experiments._tools.evidence import CASES
from experiments.dead_units.dead_tasks import main as write_dead_tasks
from reflexion_lab.analysis.comparison.cases import save_cases
from reflexion_lab.analysis.comparison.grouping import arms as arms_of
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.registration import FILE, read
from reflexion_lab.studies.run import finish

FOLDER = Path(__file__).parent
SEEDS = (1, 2, 3, 4, 5, 6)
TASKS = 552
"""Four of each of the 138 templates."""
STUDENT = (f"hydra.searchpath=[file://{FOLDER}/conf]", "model=dead_units_student", "actor=single_shot", "quiet=true")


def main(argv: Sequence[str] | None = None) -> int:
    top = output.script_parser("simulated", "both stages with the simulated student", "dead_units")
    top.add_argument("--runs", metavar="DIR", type=Path, required=True, help="folder of the runs")
    top.add_argument("--out", metavar="DIR", type=Path, default=FOLDER, help=f"write {CASES} there (default: here)")
    return output.run(top, both_stages, argv)


def both_stages(options: argparse.Namespace) -> int:
    dead = first_stage(options.runs / "first", TASKS)
    paths = second_stage(options.runs / "second", dead, SEEDS)
    plain = save_cases(options.runs / "cases.csv", arms_of(paths))
    (options.out / CASES).write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    output.print_written([options.out / CASES])
    return 0


def first_stage(root: Path, n: int) -> Path:
    """The file of the tasks on which all eight draws fail, of `n` of `basics`."""
    overrides = ["experiment=retry", "loop.max_attempts=8", "benchmark=basics", f"benchmark.load.n={n}"]
    run = _run(root, *overrides, "benchmark.load.seed=77", "temperature=0.6", "seed=0", "tracker=none")
    dead = root / "dead.jsonl"
    write_dead_tasks([str(run), "--out", str(dead)])
    return dead


def second_stage(root: Path, dead: Path, seeds: Sequence[int]) -> list[Path]:
    """Runs of every arm of the study on the tasks in `dead`."""
    study = read(FOLDER / FILE)
    shared = [word for word in shlex.split(study.shared) if not word.startswith(("model", "benchmark="))]
    return [
        _run(root, *shared, *shlex.split(words), f"benchmark={dead}", f"seed={seed}")
        for words in study.arms.values()
        for seed in seeds
    ]


def _run(root: Path, *overrides: str) -> Path:
    lab = assemble(compose(*STUDENT, *overrides, f"run_root={root}"))
    finish(lab)
    return lab.folder.path


if __name__ == "__main__":
    raise SystemExit(main())
