"""`reflexion-lab run`: one run, or with -m a sweep. All further arguments are Hydra overrides."""

from __future__ import annotations

import argparse
import os
import re
import textwrap
from typing import TYPE_CHECKING

import msgspec

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say_json
from reflexion_lab.errors import ConfigError

if TYPE_CHECKING:
    from reflexion_lab.analysis.summary import Summary
    from reflexion_lab.runner.config.build import Config
    from reflexion_lab.studies.sweeps.finished import CellState
    from reflexion_lab.studies.sweeps.sweep import Sweep

HELP = """usage: reflexion-lab run [-m] [--json] [GROUP=CHOICE ...] [KEY=VALUE ...]

Run a benchmark through the loop. All further arguments are Hydra overrides:

  reflexion-lab run                           basics with the embedded model
  reflexion-lab run benchmark=humaneval recall.omega=1 benchmark.limit=20
  reflexion-lab run experiment=simple benchmark=humaneval
  reflexion-lab run model=openai/gpt-4o-mini  any server of that protocol: model.base_url=…
  reflexion-lab run model=ollama/llama3.2:1b  a local server; also vllm/…, llamacpp-server/…
  reflexion-lab run model=hf/OWNER/NAME       weights of the hub in this process; also hf/FOLDER
  reflexion-lab run model=anthropic/claude-sonnet-4-5
                                              any provider of LiteLLM
  reflexion-lab run benchmark=tasks.jsonl     your tasks, or rows of HumanEval or MBPP
  reflexion-lab run actor=react_continuation  several turns per attempt
  reflexion-lab run model@roles.reflector=openai roles.reflector.model=gpt-4o
                                              another model for the reflector
  reflexion-lab run 'stop=[plateau,budget]' stop.budget.tokens=20000
  reflexion-lab run -m seed=0,1,2             one run per value
  reflexion-lab run ... resume=runs/FOLDER    finish an interrupted run; only=unscored:
                                              repeat what server or sandbox failed
  reflexion-lab run --processes 8 ...         the tasks in 8 processes, for a model that
                                              answers faster than one process asks
  reflexion-lab run --json ...                print JSON; with -m, one per cell
  reflexion-lab run --cfg job                 print the whole config
  reflexion-lab run --choices [GROUP]         print what each group can be

{groups}
"""


def add(commands: place.Commands) -> None:
    """Add `run` to the list of commands; Hydra parses its arguments."""
    commands.add_parser("run", help="run a benchmark through the loop (Hydra overrides follow)", add_help=False)


def run(arguments: list[str]) -> int:
    from reflexion_lab.runner.config.choices import CONF
    from reflexion_lab.runner.config.compose import hydra_main

    groups = sorted(path.name for path in CONF.iterdir() if path.is_dir() and path.name != "hydra")
    if "--help" in arguments or "-h" in arguments:
        print(HELP.format(groups=textwrap.fill(f"Groups: {', '.join(groups)}", 80)))
        return 0
    if "--choices" in arguments:
        return _choices(groups, [part for part in arguments if part != "--choices"])
    parser = argparse.ArgumentParser("reflexion-lab run", add_help=False, allow_abbrev=False)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--processes", type=int, metavar="N")
    flags, arguments = parser.parse_known_args(arguments)
    as_json, processes = flags.json, flags.processes
    # Hydra accepts the flag only before the overrides; people write it anywhere.
    overrides = [part for part in arguments if part not in ("-m", "--multirun", "hydra.mode=MULTIRUN")]
    if len(overrides) < len(arguments) or processes is not None:
        return run_many(overrides if processes is None else in_processes(processes, overrides), as_json)
    results: list[Summary | Exception] = []

    def job(cfg: Config) -> None:
        """Execute one run. Its exception is raised after Hydra has ended, since Hydra would wrap it."""
        from reflexion_lab.studies.run import carry_out

        try:
            results.append(carry_out(cfg, is_printed=not as_json))
        except Exception as problem:
            results.append(problem)

    hydra_main(job, arguments)
    for result in results:  # empty if Hydra only printed the config
        if isinstance(result, Exception):
            raise result
        if as_json:
            say_json(result)
        return int(result.harness_errors > 0)
    return 0


def _choices(groups: list[str], wanted: list[str]) -> int:
    """Print the options of all groups, or of those `wanted` with the comments at the top of their files."""
    from reflexion_lab.runner.config.choices import CONF

    if unknown := [group for group in wanted if group not in groups]:
        hint = "`reflexion-lab run --cfg job` prints all keys with their values"
        raise ConfigError("--choices", repr(unknown[0]), f"a group: {', '.join(groups)}", hint)
    for group in wanted or groups:
        tops = {p.stem: re.findall(r"\A(?:#.*\n)*", p.read_text())[0] for p in sorted((CONF / group).glob("*.yaml"))}
        about = (f"{group}={name}: {re.sub('#( @.*)?', ' ', top)}" for name, top in tops.items())
        for text in about if wanted else [f"{group}: {', '.join(tops)}"]:
            print(textwrap.fill(re.sub(r"\s+", " ", text), 80, subsequent_indent="    "))
    return 0


def in_processes(n: int, words: list[str]) -> list[str]:
    """Overrides of a sweep over `n` shards of the benchmark, in as many processes, which share the cores.

    Raises ConfigError: `n` is below 2, or one of the overrides `words` chooses shards or a launcher.
    """
    if n < 2:
        raise ConfigError("--processes", n, "2 or more")
    if own := [word for word in words if re.match(r"\+*(benchmark\.shard|hydra[/.]launcher(\.n_jobs)?)=", word)]:
        raise ConfigError("--processes", f"{own[0]} beside it", "one of both")
    shards = ",".join(f"{shard}/{n}" for shard in range(n))
    servers = [f"sandbox.servers={max(1, (os.cpu_count() or 1) // n)}"]
    has_servers = any(re.match(r"\+*sandbox\.servers=", word) for word in words)
    launcher = ["hydra/launcher=joblib", f"hydra.launcher.n_jobs={n}"]
    return [*words, f"benchmark.shard={shards}", *launcher, *servers * (not has_servers)]


def run_many(overrides: list[str], as_json: bool = False) -> int:
    """Run a sweep by Hydra's launchers. Finished cells are not run again; a failed cell does not end the sweep."""
    from reflexion_lab.studies.sweeps.sweep import Sweep

    if flags := [part for part in overrides if part.startswith("-")]:
        hint = "a config folder of your own is 'hydra.searchpath=[file:///FOLDER]', --cfg goes alone"
        raise ConfigError("-m", f"{flags[0]} beside it", f"overrides alone; {hint}")
    return run_sweep(Sweep.of(overrides), overrides, as_json)


def run_sweep(sweep: Sweep, overrides: list[str], as_json: bool = False) -> int:
    """Run the cells of a sweep that are not finished; `overrides` are those of the launcher."""
    from rich.console import Console

    from reflexion_lab.studies.sweeps.running import run_all
    from reflexion_lab.studies.sweeps.sweep import show as show_sweep

    quiet = sweep.cells[0].cfg.quiet
    try:
        left = run_all(sweep, overrides, quiet)
    except KeyboardInterrupt as stop:
        stop.add_note("finished cells are kept; the same command continues the sweep")
        raise
    if as_json:
        cells = {cell.number: cell.overrides for cell in sweep}
        states = [{**msgspec.to_builtins(state), "overrides": cells[n]} for n, state in sweep.states.items()]
        say_json({"sweep_id": sweep.sweep_id, "folder": str(sweep.folder), "cells": states})
    else:
        show_sweep(sweep, Console(stderr=quiet), problems_only=quiet)
    links = sweep.track() if left or not sweep.is_tracked else {}  # last: it may take a minute
    if links and not quiet and not as_json:
        print("\n".join(f"MLflow, {name}: {link}" for name, link in links.items()))
        print(f"open it with: {sweep.tracker.command}")
    return max(map(exit_code, sweep.states.values()))


def exit_code(state: CellState) -> int:
    """Exit code for a cell: 4 for a silent model, 3 for a reached cap, 2 for another problem or an unfinished cell."""
    stops = {"silent": 4, "stopped": 3}
    return stops.get(state.status, 2 if state.problem or state.status not in ("done", "kept") else 0)
