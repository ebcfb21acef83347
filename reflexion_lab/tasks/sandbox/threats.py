"""What a model-written program could do, what stops it, how that is tested, and what nothing stops.

`reflexion-lab doctor` prints the state on a machine; docs/safety.md has the same table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reflexion_lab.tasks.evaluators.self_tests import LONGEST, READ
from reflexion_lab.tasks.sandbox.apart import SHOWN
from reflexion_lab.tasks.sandbox.comparison import WORK
from reflexion_lab.tasks.sandbox.needs import ROUNDS
from reflexion_lab.tasks.sandbox.plain import DEEPEST
from reflexion_lab.tasks.sandbox.plain import LARGEST as MOST
from reflexion_lab.text.replies.syntax import CODE_CHARS, LARGEST, PARSES


class Threat(NamedTuple):
    name: str
    stopped_by: str
    layers: tuple[str, ...]
    """Isolation layers that it takes; a machine may lack some."""
    tested_by: str
    """Families of attacks in tests/attacks, or other tests."""
    remains: str


THREATS = (
    Threat(
        "a forged verdict",
        "values are compared in the lab or in a trusted child; both get plain data only",
        ("landlock",),
        "adversarial_equality, checks_that_are_loops, data_model, early_exits, forged_reports, judge_tampering, "
        "protocol",
        "checks that need more than plain data, or that read a helper of the program, run beside it or with its "
        "answer: they are marked `in_process` and counted",
    ),
    Threat(
        "hidden tests are read",
        "a fresh fork of a server that never held them; a candidate gets the arguments of its calls",
        ("landlock",),
        "test_leakage",
        "the arguments themselves",
    ),
    Threat(
        "keys and files are read",
        "an empty environment; only the standard library can be read",
        ("landlock",),
        "test_leakage, machine, tests/platform/secrets",
        "names and sizes of files",
    ),
    Threat(
        "files are written outside",
        "only the private folder can be written",
        ("landlock", "seccomp"),
        "machine, kernel",
        "nothing known",
    ),
    Threat(
        "the network is reached", "no sockets but a pair of connected ends", ("seccomp",), "kernel", "nothing known"
    ),
    Threat(
        "processes are started or harmed",
        "no new processes, signals or tracing",
        ("seccomp",),
        "kernel, resources",
        "nothing known",
    ),
    Threat(
        "memory, time or disk is used up",
        "limits of memory, CPU time and file size; the private folder is measured every 20 ms",
        ("rlimits",),
        "resources",
        "whatever fits in 20 ms between checks, and up to 64 unlinked files",
    ),
    Threat(
        "the next program is affected",
        "a fork for each program; the private folder is emptied",
        (),
        "state_pollution",
        "load on the machine",
    ),
    Threat(
        "the machine's trouble counts as the program's",
        "The lab runs the check again when no first run waits. It counts a full machine as a harness error. It caches "
        "neither",
        (),
        "tests/tasks/sandbox/test_time.py",
        "a program that meets a full disk and hides it, on a disk that has room again at its end",
    ),
)


class Text(NamedTuple):
    kind: str
    modules: tuple[str, ...]
    """Modules that parse, evaluate or print it."""
    bound: str


BENCHMARKS = ("basics", "humaneval", "humaneval_plus", "jsonl", "mbpp", "mutants", "rows", "vacuous", "visible")
READ_PROGRAMS = ("agent.critique.targeted_reviser", "tasks.evaluators.trajectory")
TEXTS = (
    Text(
        "checks and their setup",
        ("tasks.sandbox.apart", "tasks.sandbox.needs", "tasks.sandbox.suites"),
        f"{LARGEST:,} characters and {ROUNDS} passes; longer or deeper ones are compiled beside the program",
    ),
    Text(
        "values in checks",
        ("tasks.sandbox.comparison",),
        f"{WORK // 4:,} parts, counted as often as they occur; a check with more runs whole in a child",
    ),
    Text(
        "values of programs",
        ("tasks.sandbox.plain", "tasks.sandbox.comparison"),
        f"{MOST:,} characters, {DEEPEST} levels and {WORK:,} parts in operations; {SHOWN} characters are shown",
    ),
    Text("programs", tuple(f"tasks.sandbox.{name}" for name in ("child", "harness", "standin")), "limits of a child"),
    Text(
        "replies",
        (*(f"text.{name}" for name in ("replies.syntax", "replies.extract", "prompts.render")), *READ_PROGRAMS),
        f"{CODE_CHARS:,} characters, {PARSES} parses",
    ),
    Text("asserts in replies", ("tasks.evaluators.self_tests",), f"{READ:,} characters, {LONGEST:,} of each assert"),
    Text("tests in logs", ("audit.audit", "audit.transcripts", "audit.causes"), f"{CODE_CHARS:,} characters"),
    Text(
        "tasks in files",
        (*(f"tasks.benchmarks.{name}" for name in BENCHMARKS), "agent.models.simulated", "audit.lint_dataset"),
        "parsed and compiled, not evaluated: time in proportion to their length",
    ),
)
"""Every text of a model or a log that the lab's own process parses, evaluates or prints."""


def texts() -> str:
    """The table of texts in docs/safety.md."""
    rows = "".join(f"| {text.kind} | {', '.join(text.modules)} | {text.bound} |\n" for text in TEXTS)
    return f"| text | read by | bound |\n|---|---|---|\n{rows}"


def state(threat: Threat, missing: Sequence[str], wrong: Sequence[str]) -> str:
    """On a machine that lacks the layers `missing`, with wrong verdicts on attacks of the families `wrong`."""
    families = [family for family in wrong if family.replace(" ", "_") in threat.tested_by]
    if families:
        return f"NOT STOPPED: {len(families)} hostile programs judged wrong"
    open_layers = [layer for layer in threat.layers if layer in missing]
    return f"open: no {' and no '.join(open_layers)}" if open_layers else "stopped"


def markdown() -> str:
    """The table of docs/safety.md."""
    head = "| threat | stopped by | layers needed | tested by | what nothing stops |\n|---|---|---|---|---|\n"
    rows = (
        (row, [name if "/" in name else name.replace("_", " ") for name in row.tested_by.split(", ")])
        for row in THREATS
    )
    return head + "".join(
        f"| {row.name} | {row.stopped_by} | {', '.join(row.layers)} | {', '.join(tests)} | {row.remains} |\n"
        for row, tests in rows
    )
