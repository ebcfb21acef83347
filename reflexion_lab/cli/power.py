"""`reflexion-lab power`: the difference that a design detects."""

from __future__ import annotations

import argparse

from msgspec.structs import replace

from reflexion_lab.analysis.report.cells import line, rate
from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say_json


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "simulate which difference between two arms a design detects"
    sub = commands.add_parser("power", help=text, description=f"{text}, by the verdict of `compare`")
    sub.add_argument("--tasks", metavar="N", type=int, required=True, help="tasks of each run")
    sub.add_argument("--seeds", metavar="K", type=int, default=1, help="runs of each arm (default: %(default)s)")
    clusters = "templates, families or repositories that share the tasks evenly (default: one per task)"
    sub.add_argument("--clusters", metavar="C", type=int, default=0, help=clusters)
    alike = "intraclass correlation of a cluster's tasks (default: %(default)s)"
    sub.add_argument("--cluster-agreement", metavar="R", type=float, default=0.5, help=alike)
    discordance = "share of cases that only one arm solves, from a pilot: (won + lost) / n of `compare`"
    sub.add_argument("--discordance", metavar="D", type=float, required=True, help=discordance)
    agreement = "intraclass correlation of a task's seeds; 1 at temperature 0 (default: %(default)s)"
    sub.add_argument("--agreement", metavar="A", type=float, default=0.5, help=agreement)
    arms = "arms compared with the baseline, for Holm's correction (default: %(default)s)"
    sub.add_argument("--comparisons", metavar="M", type=int, default=1, help=arms)
    difference = "true difference, such as 0.1: print how often it is detected"
    sub.add_argument("--difference", metavar="DIFF", type=float, help=difference)
    margin = "equivalence margin, such as 0.05: print how often a true difference of 0 is shown to lie within it"
    sub.add_argument("--margin", metavar="MARGIN", type=float, help=margin)
    share = "share of studies that detect the difference (default: %(default)s)"
    sub.add_argument("--power", metavar="P", type=float, default=0.8, help=share)
    sub.add_argument("--studies", metavar="N", type=int, default=1000, help="simulated studies (default: %(default)s)")
    place.add_json(sub)
    sub.set_defaults(command=power)


def power(options: argparse.Namespace) -> None:
    from rich.console import Console

    from reflexion_lab.analysis.stats.power import Design, detectable, detected, equivalent, too_few

    design = Design(
        tasks=options.tasks,
        seeds=options.seeds,
        discordance=options.discordance,
        agreement=options.agreement,
        difference=options.difference or 0.0,
        comparisons=options.comparisons,
        clusters=options.clusters,
        cluster_agreement=options.cluster_agreement,
    )
    is_clustered = 0 < design.clusters < design.tasks
    units = f" in {design.clusters} clusters" if is_clustered else ""
    size = f"{design.tasks} tasks{units} x {design.seeds} seed{'s' * (design.seeds > 1)}"
    smallest = detectable(design, options.power, options.studies)
    share = None if options.difference is None else detected(design, options.studies)
    same = replace(design, difference=0.0)
    inside = None if options.margin is None else equivalent(same, options.margin, options.studies)
    if options.json:
        answer = {"detectable": smallest, "power": options.power, "detected": share, "studies": options.studies}
        answer |= {} if inside is None else {"inside_margin": inside}
        say_json({**answer, "design": design})
        return
    points = "none" if smallest is None else f"{100 * smallest:.1f} points"
    lines = [f"detectable difference: {points}, by {100 * options.power:g} % of studies of {size}"]
    if text := too_few(design.clusters or design.tasks, design.tasks, design.comparisons):
        lines.append(text)
    if share is not None:
        lines.append(f"{100 * design.difference:.1f} points: detected by {rate(share, 'studies')}")
    if inside is not None:
        points = f"{100 * options.margin:g} points"
        lines.append(f"margin of {points}: a true difference of 0 lies within it in {rate(inside, 'studies')}")
    tasks = f", of a cluster's tasks {100 * design.cluster_agreement:g} %" if is_clustered else ""
    family = f", {design.comparisons} comparisons" if design.comparisons > 1 else ""
    lines.append(
        f"{options.studies:,} simulated studies each; discordance {100 * design.discordance:g} %, "
        f"agreement of seeds {100 * design.agreement:g} %{tasks}{family}"
    )
    for text in lines:
        Console().print(line(text))
