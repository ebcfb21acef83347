"""`reflexion-lab doctor`: is the evaluator sound here, and does the model answer alike when it is asked alike?"""

from __future__ import annotations

import argparse
from pathlib import Path

from reflexion_lab.cli import place


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "check the evaluator: canonical and hostile programs, isolation layers"
    description = f"{text}; or, with --determinism, how often a model repeats its answers"
    sub = commands.add_parser("doctor", help=text, description=description)
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    attacks = "the hostile programs: a quick set, or all of a file or folder, such as tests/attacks of the repository"
    sub.add_argument("--hostile", nargs="?", type=Path, metavar="FOLDER", help=attacks)
    probe = "ask a model the same again and again, one at a time and several at once, and print how often replies "
    probe += "differ; overrides choose model, benchmark, actor, temperature, seed"
    sub.add_argument("--determinism", nargs="*", metavar="KEY=VALUE", help=probe)
    sub.add_argument("--prompts", type=place.positive, default=10, metavar="N", help="(default: %(default)s)")
    times = "times that each prompt is asked, in each condition (default: %(default)s)"
    sub.add_argument("--repeats", type=place.positive, default=5, metavar="N", help=times)
    sub.set_defaults(command=doctor)


def doctor(options: argparse.Namespace) -> int:
    """0, or 1 where the evaluator may not be trusted; how a model repeats itself is no verdict."""
    from reflexion_lab.cli.doctor_checks import examine
    from reflexion_lab.tasks.sandbox.attacks import QUICK

    if options.determinism is None:
        return examine(options.hostile or QUICK, as_json=options.json)
    return _determinism(options)


def _determinism(options: argparse.Namespace) -> int:
    import msgspec
    from rich.console import Console

    from reflexion_lab.runner.config.compose import compose
    from reflexion_lab.studies.determinism import announced, determinism, show

    cfg = compose(*options.determinism)
    result = determinism(cfg, options.prompts, options.repeats, lambda plan: print(announced(plan), flush=True))
    show(result, Console())
    if options.json:
        print(msgspec.json.encode(result).decode())
    return 0
