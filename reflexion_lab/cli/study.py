"""`reflexion-lab study`: register a study, run it, and check its runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from reflexion_lab.analysis.report.cells import listed
from reflexion_lab.cli import place
from reflexion_lab.cli.run import run_sweep
from reflexion_lab.cli.sheets import say

SHOWN = 4
"""Keys of an arm that `register` prints."""


def add(commands: place.Commands) -> None:
    kinds = place.add_group(commands, "study", "register a study, run it, and check its runs")
    text = "compose the config of every arm and append it to a study.yaml; refused if the design is too small for the "
    sub = place.add_command(kinds, "register", register, f"{text}registered effect")
    sub.add_argument("study", metavar="FILE", help="a study.yaml whose arms have overrides")
    text = "run all arms and seeds of a registered study as one sweep; the same command resumes it"
    sub = place.add_command(kinds, "run", run, text)
    sub.add_argument("study", metavar="FILE", help="a registered study.yaml")
    how = "how it is executed, such as workers=2 or run_root=FOLDER; other keys make its runs exploratory"
    sub.add_argument("overrides", metavar="KEY=VALUE", nargs="*", help=how)
    text = "list the runs that belong to a study, with each deviation, and what is missing; exit "
    text += "code 1 if a run does not belong to it, or if the design cannot detect the registered effect"
    sub = place.add_command(kinds, "check", check, text)
    sub.add_argument("study", metavar="FILE", help="a study.yaml")
    sub.add_argument("runs", metavar="RUN", nargs="*", help="run folders")


def register(options: argparse.Namespace) -> None:
    from reflexion_lab.studies.registered import register as register_study
    from reflexion_lab.studies.registered import within_margin

    study = register_study(Path(options.study))
    section, inside = study.registered, within_margin(study)
    assert section
    margin = f"margin: {100 * inside.share:.0f} % show a true difference of 0 to lie within " if inside else ""
    margin += f"{100 * study.equivalence_margin:g} points" * bool(inside)
    say(
        f"registered: {study.name}, digest {study.digest}, arms {len(study.arms)}, seeds {len(study.seeds)}",
        f"power: {100 * section.power:.0f} % of simulated studies detect "
        f"{100 * study.minimum_detectable_effect:g} points",
        *[margin] * bool(margin),
        *(f"{arm}: {_settings(own.config)}" for arm, own in section.arms.items()),
        f"next: commit {options.study}, sign a tag or stamp it (docs/guides/sweep.md), then",
        f"  reflexion-lab study run {options.study}",
    )


def _settings(config: dict[str, object]) -> str:
    own = [f"{key}={value}" for key, value in config.items() if "_target_" not in key and "_partial_" not in key]
    return listed(own, SHOWN) or "as the other arms"


def run(options: argparse.Namespace) -> int:
    from reflexion_lab.studies.registered import sweep_of

    return run_sweep(sweep_of(Path(options.study), options.overrides), options.overrides)


def check(options: argparse.Namespace) -> int:
    from reflexion_lab.studies.registered import show, status

    state = status(Path(options.study), [Path(path) for path in options.runs])
    show(state)
    return int(state.is_too_small or any(member.deviations for member in state.runs))
