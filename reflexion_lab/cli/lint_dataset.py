"""`reflexion-lab lint-dataset`: check the quality of a benchmark."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say_json

EXAMPLES = """examples:
  reflexion-lab lint-dataset humaneval
  reflexion-lab lint-dataset benchmark=basics benchmark.load.n=200
  reflexion-lab lint-dataset my_tasks.jsonl --strict"""

PROMISE_ALL = ("basics",)
"""Benchmarks in which a warning is an error."""


def add(commands: place.Commands) -> None:
    text = "check a benchmark: canonical solutions pass, mutants fail, visible and hidden tests are disjoint"
    codes = "exit code 1 if there is an error, 0 if there are only warnings"
    sub = place.add_command(commands, "lint-dataset", lint_dataset, f"{text};\n{codes}")
    sub.epilog, sub.formatter_class = EXAMPLES, argparse.RawDescriptionHelpFormatter
    what = "a benchmark's name, a file of tasks (.jsonl, .json, .csv, …), or Hydra overrides as for `run`"
    sub.add_argument("overrides", metavar="BENCHMARK", nargs="*", help=what)
    mutants = "maximum number of mutants per task, sampled by seed; 0 runs none (default: %(default)s)"
    sub.add_argument("--mutants", type=place.count, default=30, metavar="N", help=mutants)
    place.add_flag(sub, "--strict", "warnings are errors, as they always are for basics")
    place.add_flag(sub, "--all", "print every finding, not the first of each check")
    place.add_json(sub)


def lint_dataset(options: argparse.Namespace) -> int:
    """Returns 1 if there is an error, else 0."""
    from rich.console import Console

    from reflexion_lab.audit.lint_dataset import lint
    from reflexion_lab.audit.lint_report import as_json, show
    from reflexion_lab.audit.stored_programs import counter
    from reflexion_lab.runner.config.compose import compose
    from reflexion_lab.runner.config.parts import load_benchmark, load_sandbox
    from reflexion_lab.runner.config.record import RunConfig

    start = time.monotonic()
    # Mutants loop forever more often than models' programs; the limit is still enough for a canonical solution.
    cfg = RunConfig.of(compose("sandbox.limits.cpu_seconds=1", *overrides(options.overrides)))
    sandbox = load_sandbox(cfg)
    try:
        benchmark = load_benchmark(cfg, sandbox)
        if benchmark.note:
            warnings.warn(benchmark.note, stacklevel=2)
        with counter(benchmark.name, "task", len(benchmark)) as bar:
            linted = lint(
                benchmark.tasks,
                sandbox,
                benchmark=benchmark.name,
                mutants=options.mutants,
                seed=cfg.seed,
                workers=sandbox.servers,
                strict=options.strict or cfg.benchmark.name in PROMISE_ALL,
                each=bar.update,
            )
    finally:
        sandbox.close()
    show(linted, Console(), options.all)
    if options.json:
        say_json(as_json(linted, time.monotonic() - start))
    return int(linted.errors > 0)


def overrides(arguments: Sequence[str]) -> list[str]:
    """Hydra overrides for the arguments: one without `=` is a file of tasks or the name of a benchmark."""
    settings = []
    for word in arguments:
        if Path(word).is_file():
            quoted = word.replace("\\", "\\\\").replace("'", "\\'")
            settings += ["benchmark=jsonl", f"benchmark.load.path='{quoted}'"]
        else:
            settings.append(word if "=" in word else f"benchmark={word}")
    return settings
