"""`reflexion-lab doctor`: soundness of the evaluator on this machine."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say_json
from reflexion_lab.records import Task

if TYPE_CHECKING:
    from reflexion_lab.tasks.sandbox.attacks import Attack, Verdict
    from reflexion_lab.tasks.sandbox.sandbox import Sandbox


def add(commands: place.Commands) -> None:
    text = "check the evaluator: canonical and hostile programs, isolation layers"
    sub = place.add_command(commands, "doctor", doctor, text)
    place.add_json(sub)
    attacks = "the hostile programs: a quick set, or all of a file or folder, such as tests/attacks of the repository"
    sub.add_argument("--hostile", nargs="?", type=Path, metavar="FOLDER", help=attacks)


def doctor(options: argparse.Namespace) -> int:
    """Returns 1 if the evaluator is unsound, else 0."""
    from reflexion_lab.tasks.sandbox.attacks import QUICK

    return check_evaluator(options.hostile or QUICK, as_json=options.json)


WITHOUT = {
    "rlimits": "a program may use all memory, write files of any size and never end by itself",
    "landlock": "a program may read and write all your files, including other programs' folders and your keys",
    "seccomp": "a program may start processes that outlive it, reach the network, signal and trace your processes",
}
"""Consequence of each missing layer."""


class Findings(NamedTuple):
    """The last line of `--json`. Totals exclude attacks that are open (missing layer)."""

    canonical_passed: int
    canonical_total: int
    hostile_passed: int
    """Attacks that passed and should not."""
    hostile_total: int
    hostile_right: int
    harness_deaths: int
    """Servers that had to be replaced."""
    orphans: int
    files_outside: int
    isolation: list[str]

    @property
    def sound(self) -> bool:
        harm = self.hostile_passed + self.harness_deaths + self.orphans + self.files_outside
        missed = self.canonical_total - self.canonical_passed + self.hostile_total - self.hostile_right
        return not (harm or missed)


class AttackRun(NamedTuple):
    verdicts: list[Verdict]
    layers: tuple[str, ...]
    harness_deaths: int
    orphans: tuple[int, ...]
    files_outside: tuple[str, ...]

    def standing(self, which: str) -> list[Verdict]:
        """The verdicts that are `right`, `WRONG` or `open` (missing layer)."""
        return [verdict for verdict in self.verdicts if standing(verdict, self.layers) == which]


def check_evaluator(place: Path, as_json: bool = False) -> int:
    """Run and print the attacks of a file or folder; returns 0 if the evaluator is sound, else 1."""
    from reflexion_lab.tasks.benchmarks.humaneval import humaneval
    from reflexion_lab.tasks.sandbox.attacks import QUICK, read
    from reflexion_lab.tasks.sandbox.sandbox import Sandbox

    attacks = read(place)
    with Sandbox() as sandbox, ThreadPoolExecutor(4) as pool:
        solutions = list(pool.map(lambda task: (task.task_id, canonical_passes(sandbox, task)), humaneval()))
    attack_run = run_attacks(attacks)
    result = findings([passed for _, passed in solutions], attack_run)
    print_summary(result, attack_run)
    print("".join(f"canonical solution failed: {task_id}\n" for task_id, passed in solutions if not passed), end="")
    print_threats(attack_run)
    if place == QUICK:
        print("all attacks, one by one: reflexion-lab doctor --hostile tests/attacks, in a checkout")
    else:
        print_table(attack_run)
    if as_json:
        say_json(result._asdict())
    return int(not result.sound)


def canonical_passes(sandbox: Sandbox, task: Task) -> bool:
    """Whether the task's own solution passes its own hidden tests."""
    from reflexion_lab.tasks.evaluators.unit_tests import run_tests

    return run_tests(sandbox, task, task.canonical_program, task.hidden_tests).passed


def run_attacks(attacks: Sequence[Attack]) -> AttackRun:
    """Judge every attack: those with a probe one by one on a single server, the others in parallel."""
    from reflexion_lab.tasks.sandbox.attacks import PLANTED, Watch, judge
    from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

    watch = Watch()
    limits = Limits(wall_seconds=2.0, cpu_seconds=1, memory_mb=256)  # short, since some programs never end
    os.environ[PLANTED] = "a key that no candidate may see"
    try:
        with Sandbox(limits) as crowd, Sandbox(limits, servers=1) as alone:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                verdicts = list(pool.map(lambda attack: judge(crowd, attack), [a for a in attacks if not a.probe]))
            verdicts += [judge(alone, attack) for attack in attacks if attack.probe]
            servers = [*crowd._started, *alone._started]
            deaths = sum(server.process.poll() not in (None, 0) for server in servers)
    finally:
        del os.environ[PLANTED]
    orphans, files = watch.left(server.folder for server in servers)
    order = {attack.name: place for place, attack in enumerate(attacks)}
    verdicts.sort(key=lambda verdict: order[verdict.attack.name])
    return AttackRun(verdicts, crowd.layers, deaths, orphans, tuple(map(str, files)))


def missing(layers: Sequence[str]) -> list[str]:
    """The layers that are not active."""
    return [layer for layer in WITHOUT if not any(name.startswith(layer) for name in layers)]


def standing(verdict: Verdict, layers: Sequence[str]) -> str:
    """`right`, `WRONG`, or `open` (missing layer)."""
    if verdict.right:
        return "right"
    return "open" if set(verdict.attack.needs) & set(missing(layers)) else "WRONG"


def findings(canonical: Sequence[bool], attack_run: AttackRun) -> Findings:
    right = attack_run.standing("right")
    counted = right + attack_run.standing("WRONG")
    return Findings(
        canonical_passed=sum(canonical),
        canonical_total=len(canonical),
        hostile_passed=sum(
            verdict.outcome == "pass" for verdict in counted if not (verdict.attack.probe or verdict.attack.in_process)
        ),
        hostile_total=len(counted),
        hostile_right=len(right),
        harness_deaths=attack_run.harness_deaths,
        orphans=len(attack_run.orphans),
        files_outside=len(attack_run.files_outside),
        isolation=list(attack_run.layers),
    )


def print_table(attack_run: AttackRun) -> None:
    """One line per attack, below its family's name."""
    for family, verdicts in groupby(attack_run.verdicts, key=lambda verdict: verdict.attack.family):
        print(family)
        for verdict in verdicts:
            attack, name = verdict.attack, verdict.attack.name.removeprefix(f"{family}: ")
            outcome = "probe: " * bool(attack.probe) + verdict.outcome + ", in process" * attack.in_process
            stands = standing(verdict, attack_run.layers)
            print(f"  {stands:<5} {name}: {outcome}, expected {' | '.join(attack.expected)}")


def print_threats(attack_run: AttackRun) -> None:
    """What a program could do, and whether it is stopped on this machine."""
    from reflexion_lab.tasks.sandbox.threats import THREATS, state

    wrong = [verdict.attack.family for verdict in attack_run.standing("WRONG")]
    for name, threat in THREATS.items():
        print(f"{name:<46} {state(threat, missing(attack_run.layers), wrong)}")


def print_summary(result: Findings, attack_run: AttackRun) -> None:
    for verdict in attack_run.standing("WRONG"):
        print(f"WRONG: {verdict.attack.name}: {verdict.outcome} ({verdict.detail[:100]})")
    print(f"canonical solutions passed: {result.canonical_passed} of {result.canonical_total}")
    print(f"hostile programs judged right: {result.hostile_right} of {result.hostile_total}")
    print(
        f"harness deaths: {result.harness_deaths}; orphans: {result.orphans}; files outside: {result.files_outside}"
        + "".join(f"\n  left behind: {item}" for item in (*attack_run.orphans, *attack_run.files_outside))
    )
    print(f"isolation on {platform.system()} {platform.machine()}: {', '.join(result.isolation)}")
    for layer in missing(result.isolation):
        through = sum(layer in verdict.attack.needs for verdict in attack_run.standing("open"))
        print(f"not active here: {layer}: {WITHOUT[layer]} ({through} programs got through)")
    if missing(result.isolation):
        print("  run model-written code only on a machine that you can afford to lose")
