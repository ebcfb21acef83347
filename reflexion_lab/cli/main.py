"""The command line. What is heavy is imported by the command that needs it; `--help` stays light."""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from reflexion_lab.errors import ConfigError
from reflexion_lab.io.signals import heeded
from reflexion_lab.io.terminal_text import visible
from reflexion_lab.runner.config.messages import harmless, in_full, in_lines, mendable

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from reflexion_lab.studies.cell_states import CellState

RUN_HELP = """usage: reflexion-lab run [-m] [GROUP=CHOICE ...] [KEY=VALUE ...]

Run a benchmark through the loop. What follows `run` are Hydra overrides:

  reflexion-lab run                                    basics with the embedded model
  reflexion-lab run benchmark=humaneval recall.omega=1 loop.max_attempts=3 benchmark.limit=20
  reflexion-lab run experiment=simple benchmark=humaneval
  reflexion-lab run model=openai model.model=gpt-4o-mini actor=single_shot
  reflexion-lab run actor=react_continuation loop.max_attempts=2     turns within an attempt
  reflexion-lab run model@roles.reflector=openai roles.reflector.model=gpt-4o   a reflector of its own
  reflexion-lab run reflector=generic 'stop=[plateau,budget]' stop.budget.tokens=20000
  reflexion-lab run -m seed=0,1,2                      one run per value
  reflexion-lab run ... resume=runs/FOLDER             finish a run that was cut off
  reflexion-lab run --cfg job                          print the whole config

Groups: {groups}
"""
BUG = """
This is a bug in reflexion_lab, or in a part of your own that stands in the lines above. What had finished is written.
To report it, send these lines, the command, and what `reflexion-lab doctor` prints.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns 0; 2 after one line on what was wrong and what to do; 3 after one on the cap reached; 130
    after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not {"", str(Path.cwd())} & {*sys.path}:
        sys.path.append(str(Path.cwd()))  # a reader's own parts, as `python -m` finds them; behind all others
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if arguments[:1] == ["run"]:
        return guarded(lambda: run(arguments[1:]))
    if arguments == ["--version"]:
        from reflexion_lab import __version__

        print(f"reflexion-lab {__version__}")
        return 0
    options = parser().parse_args(arguments)
    return guarded(lambda: options.command(options) or 0)


def parser() -> argparse.ArgumentParser:
    from reflexion_lab.cli import (
        bundle,
        compare,
        doctor,
        estimate,
        lint_dataset,
        memory,
        recordings,
        report,
        track,
        verify,
        wisdom,
    )
    from reflexion_lab.cli.place import positive

    top: argparse.ArgumentParser = Arguments(
        prog="reflexion-lab", description="Measure whether a language model learns from its own words."
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("run", help="run a benchmark through the loop (Hydra overrides follow)", add_help=False)
    text = "print a run's tasks, curve and headline figures"
    sub = commands.add_parser("show", help=text, description=text)
    sub.add_argument("folder", metavar="RUN", help="a run folder, as `run` prints at its end")
    sub.add_argument("--all", action="store_true", help="every task, however many")
    sub.set_defaults(command=show)
    sub = commands.add_parser("demo", help="Reflexion against a single attempt with the embedded model, in minutes")
    sub.add_argument("--tasks", type=positive, default=12, help="HumanEval tasks, sampled (default: %(default)s)")
    sub.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="Hydra overrides for every run")
    sub.set_defaults(command=demo)
    add_audit(commands)
    for room in (
        track,
        compare,
        estimate,
        report,
        memory,
        wisdom,
        recordings,
        bundle,
        lint_dataset,
        verify,
        doctor,
    ):
        room.add(commands)
    return top


class Arguments(argparse.ArgumentParser):
    """A parser whose complaints repeat arguments, such as names of files, without harm."""

    def error(self, message: str) -> NoReturn:
        super().error(visible(message))


def add_audit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "execute other people's logged programs again, each in a namespace of its own, and compare verdicts"
    sub = commands.add_parser("audit", help=text, description=text)
    files = "human-eval samples, original Reflexion logs or transcripts (.jsonl, .jsonl.gz), or run folders"
    sub.add_argument("files", metavar="FILE", nargs="+", help=files)
    sub.add_argument("--attempts", action="store_true", help="every attempt, where a file holds more than solutions")
    sub.add_argument("--limit", type=int, metavar="N", help="only the first N samples of each file")
    sub.add_argument("--workers", type=int, metavar="N", help="programs at once (default: one per core)")
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    sub.set_defaults(command=audit)


def guarded(command: Callable[[], int]) -> int:
    """What `in_one_line` does; a warning is a line, without the place in our code; and whoever asks it to stop
    gets a line on how to go on.
    """
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {harmless(str(message))}", file=sys.stderr)
    sys.excepthook = lambda _, problem, __: sys.stderr.write(in_full(problem) + BUG)
    with heeded():
        try:
            return in_one_line(command)
        except KeyboardInterrupt as stop:
            how = "; ".join(getattr(stop, "__notes__", ())) or "what had finished is written"
            print(f"interrupted; {how}", file=sys.stderr)
            return getattr(stop, "code", 130)


def in_one_line(command: Callable[[], int]) -> int:
    """Turn what a user can mend into one line; anything else is a bug and keeps its traceback."""
    try:
        return command()
    except Exception as problem:
        from reflexion_lab.agent.models.capped import CapReached

        if isinstance(problem, CapReached):
            print(f"cap reached: {in_lines(problem)}", file=sys.stderr)
            return 3
        if not mendable(problem):
            raise
        print(f"error: {in_lines(problem)}", file=sys.stderr)
        return 2


def run(arguments: list[str]) -> int:
    from reflexion_lab.runner.config.compose import CONF

    if "--help" in arguments or "-h" in arguments:
        groups = sorted(path.name for path in CONF.iterdir() if path.is_dir() and path.name != "hydra")
        print(RUN_HELP.format(groups=", ".join(groups)))
        return 0
    # Hydra takes the flag only in front of the overrides; people write it anywhere.
    overrides = [part for part in arguments if part not in ("-m", "--multirun", "hydra.mode=MULTIRUN")]
    if len(overrides) < len(arguments):
        return run_many(overrides)
    failed: list[int] = []

    def job(cfg: DictConfig) -> float:
        """One run from its config; returns its pass@1. What is wrong is said here, before Hydra would wrap it."""
        from reflexion_lab.studies.run import carry_out

        share = float("nan")

        def carried_out() -> int:
            nonlocal share
            found = carry_out(cfg)
            share = found.pass_at_1.share if found.pass_at_1.n else float("nan")
            return int(found.harness_errors > 0)

        failed.append(in_one_line(carried_out))
        return share

    launch(job, arguments)
    return max(failed, default=0)


def run_many(overrides: list[str]) -> int:
    """A sweep by Hydra's launchers: cells that are finished are not run again, and one that fails ends no sweep."""
    from rich.console import Console

    from reflexion_lab.studies.scale.launch import Launch
    from reflexion_lab.studies.sweep import Sweep, launched
    from reflexion_lab.studies.sweep_progress import shown
    from reflexion_lab.studies.sweep_report import show as show_sweep

    if flags := [part for part in overrides if part.startswith("-")]:
        expected = (
            "overrides alone; a config folder of your own is 'hydra.searchpath=[file:///FOLDER]', --cfg goes alone"
        )
        raise ConfigError(f"{flags[0]}: found beside -m", expected=expected)
    sweep = Sweep.of(overrides)
    launch, quiet = Launch(overrides, sweep.sweep_id), sweep.cells[0].cfg.quiet
    try:
        with shown(sweep, quiet):
            left = sweep.keep()
            launched(sweep, left, launch)
    except KeyboardInterrupt as stop:
        stop.add_note("what had finished stands; the same command goes on with the sweep")
        raise
    show_sweep(sweep, Console(stderr=quiet), problems_only=quiet)
    links = sweep.track() if left or not sweep.is_tracked else {}  # last: it may take a minute
    if not quiet:
        print("\n".join(f"MLflow, {name}: {link}" for name, link in links.items()))
        print(f"open it with: {sweep.tracker.command}" * bool(links))
    return max(map(exit_code, sweep.states.values()))


def exit_code(state: CellState) -> int:
    """Of a sweep that holds this cell: 3 for a cap, 2 for anything else that is wrong, or left undone."""
    if state.status == "stopped":
        return 3
    return 2 if state.problem or state.status not in ("done", "kept") else 0


def launch(job: Callable[[DictConfig], float], arguments: list[str]) -> None:
    """Hand over to Hydra."""
    import hydra

    from reflexion_lab.runner.config.compose import CONF, blamed

    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors reach `in_one_line`
    sys.argv = ["reflexion-lab run", *arguments]
    try:
        hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(job)()
    except Exception as problem:  # of the config: what is wrong with a run was said by its job
        raise blamed(problem, [word for word in arguments if not word.startswith("-")]) from problem.__cause__


def show(options: argparse.Namespace) -> None:
    from rich.console import Console

    from reflexion_lab.analysis.report.run_tables import show as show_run
    from reflexion_lab.runner.folder.folder import RunFolder

    show_run(RunFolder.existing(options.folder), Console(), all_tasks=options.all)


def demo(options: argparse.Namespace) -> int:
    from reflexion_lab.cli.demo import demonstrate

    return demonstrate(options.tasks, tuple(options.overrides))


def audit(options: argparse.Namespace) -> int:
    import json

    from rich.console import Console

    from reflexion_lab.audit.audit import audit_files
    from reflexion_lab.audit.audit_report import as_json, show

    start = time.monotonic()
    audits = audit_files(options.files, attempts=options.attempts, limit=options.limit, workers=options.workers)
    show(audits, Console())
    if options.json:
        print(json.dumps(as_json(audits, time.monotonic() - start)))
    return int(any(found.harness_errors for found in audits))


if __name__ == "__main__":
    sys.exit(main())
