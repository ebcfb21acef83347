"""`reflexion-lab lint-dataset`: is a benchmark fit to measure with?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from reflexion_lab.cli import place

EXAMPLES = """examples:
  reflexion-lab lint-dataset humaneval
  reflexion-lab lint-dataset benchmark=basics benchmark.load.n=200
  reflexion-lab lint-dataset my_tasks.jsonl --strict
  reflexion-lab lint-dataset benchmark=recorded benchmark.load.path=transcripts.jsonl.gz"""

PROMISE_ALL = ("basics",)
"""Benchmarks that promise to be without a warning."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "check a benchmark: canonical solutions pass, mutants fail, visible and hidden tests are disjoint"
    sub = commands.add_parser(
        "lint-dataset",
        help=text,
        description=f"{text}. Exit code: 1 where there is an error, 0 where there are warnings alone.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = "a benchmark's name, a file of tasks (.jsonl, .jsonl.gz), or Hydra overrides as for `run`"
    sub.add_argument("overrides", metavar="BENCHMARK", nargs="*", help=what)
    most = "maximum number of mutants of a task, sampled by seed; 0 runs none (default: %(default)s)"
    sub.add_argument("--mutants", type=place.count, default=30, metavar="N", help=most)
    sub.add_argument("--strict", action="store_true", help="warnings are errors, as they always are for basics")
    sub.add_argument("--all", action="store_true", help="print every finding, not the first of each check")
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    sub.set_defaults(command=lint_dataset)


def lint_dataset(options: argparse.Namespace) -> int:
    """0, or 1 where there is an error."""
    import json
    import time

    from rich.console import Console

    from reflexion_lab.audit.lint_dataset import lint
    from reflexion_lab.audit.lint_report import as_json, progress, show
    from reflexion_lab.runner.config.compose import compose
    from reflexion_lab.runner.config.parts import load_benchmark, load_sandbox

    start = time.monotonic()
    # Mutants loop forever more often than models' programs do; the limit still fits a canonical solution.
    cfg = compose("sandbox.limits.cpu_seconds=1", *overrides(options.overrides))
    sandbox = load_sandbox(cfg)
    try:
        benchmark = load_benchmark(cfg, sandbox)
        with progress(len(benchmark)) as each:
            linted = lint(
                benchmark.tasks,
                sandbox,
                benchmark=benchmark.name,
                mutants=options.mutants,
                seed=cfg.seed,
                workers=sandbox.servers,
                strict=options.strict or cfg.benchmark.name in PROMISE_ALL,
                each=each,
            )
    finally:
        sandbox.close()
    show(linted, Console(), options.all)
    if options.json:
        print(json.dumps(as_json(linted, time.monotonic() - start)))
    return int(linted.errors > 0)


def overrides(words: Sequence[str]) -> list[str]:
    """Hydra overrides for the command's words: a word without `=` is a file of tasks or the name of a benchmark."""
    settings = []
    for word in words:
        if "=" in word and not Path(word).is_file():
            settings.append(word)
        elif Path(word).is_file() or Path(word).suffix in (".jsonl", ".gz"):
            quoted = word.replace("\\", "\\\\").replace("'", "\\'")
            settings += ["benchmark=jsonl", f"benchmark.load.path='{quoted}'"]
        else:
            settings.append(f"benchmark={word}")
    return settings
