"""Causes of verdicts that differ from the log: variants of the program are executed, and logs that grade themselves.

Names are found by patterns, since a hostile program could crash the parser; a missed name only loses an explanation.
"""

from __future__ import annotations

import builtins
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab.audit.samples import IMPORTS, Sample, completed
from reflexion_lab.audit.self_graded import SelfGraded, self_graded
from reflexion_lab.audit.verdicts import Verdict
from reflexion_lab.errors import HarnessError
from reflexion_lab.records import Task
from reflexion_lab.text.replies.extract import extract, without_stray_quote
from reflexion_lab.text.replies.syntax import CODE_CHARS

CAUSES = {
    "no_program": "the log holds no program",
    "no_test": "the log holds no test",
    "missing_module": "imports a module that the sandbox lacks",
    "missing_import": "lacks an import that the log's harness had",
    "missing_prompt": "lacks its prompt, which the log's harness had",
    "stray_quote": "passes without a stray quote mark",
    "indentation": "passes once indented to follow the prompt",
    "markup": "passes once taken out of the text around it",
    "other_name": "passes if another of its functions is tested",
    "as_script": "passes only as a script, under `__main__`",
    "recursion_limit": "passes with a higher recursion limit",
    "stop_sequence": "fails once cut where harnesses end a completion",
    "no_check": "the log's tests pass without the program",
    "shared_namespace": "logged so only after an earlier program of the log",
    "own_imports": "passes only with what this audit puts before it",
    "other_attempt": "the logged verdict is that of another attempt",
    "self_graded": "the log grades itself, without hidden tests",
    "slow": "passes, but only in more time than usual limits",
    "sandbox_limit": "needs more memory or access than the sandbox grants",
    "unstable": "the verdict changes from execution to execution",
}
"""Every cause by name, with its meaning. The guide on audits lists what shows each."""

VARIANTS = {
    **CAUSES,
    "missing_import": "passes with the usual imports before it",
    "missing_prompt": "passes after its prompt",
}
"""Evidence from the execution of a variant, by cause. The log may have had the import from an earlier program."""
STARS = (
    "bisect", "collections", "datetime", "decimal", "enum", "fractions", "functools", "itertools", "math", "string",
)  # fmt: skip
MORE_IMPORTS = "".join(f"from {name} import *\nimport {name}\n" for name in STARS)
MORE_IMPORTS += "import array, base64, calendar, cmath, contextlib, hashlib, io, json, os, queue, statistics, struct"
MORE_IMPORTS += ", textwrap, time, uuid\n"
"""Further imports of some harnesses, which change the meaning of names such as `pow`."""
STOPS = re.compile(r"\n(?:class|def|#|@|if|print|```)")
"""Where harnesses cut a completion (Chen et al. 2021)."""

SLOW = 3.0
"""Seconds from which a pass counts as slow; 3 s is the limit of the HumanEval harness (Chen et al. 2021)."""
SAME = 0.9
"""Share of common tasks with equal programs and verdicts from which two logs are of one run."""
REPEATS = 8
"""Executions of the same program to see whether its verdict changes."""
SEEDED = "import random as _random\n_random.seed({})\n"
"""Makes a program draw other numbers: the sandbox seeds `random`."""

BINDING = re.compile(r"^(?:(?:async )?def|class)[ \t]+(\w+)|^(\w+)[ \t]*(?::[^=\n]*)?=(?!=)", re.MULTILINE)
IMPORTING = re.compile(r"^(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(.+)", re.MULTILINE)
IMPORT_LINE = re.compile(r"^(?:from[ \t]+[\w.]+[ \t]+)?import[ \t].+", re.MULTILINE)
RECURSION = "import sys\nsys.setrecursionlimit(50_000)\n"
MISSING_NAME = re.compile(r"name '(\w+)' is not defined")
MISSING_MODULE = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'")
DENIED = re.compile(
    r"^(?:\w+: (?:<urlopen error )?\[Errno (?:1|11|12|13|24|27|38|97)\]|(?:MemoryError|memory)\b|.*new thread)"
)

REPLAY = """for _source in {sources!r}:
    try:
        exec(_source, globals())
    except BaseException:
        pass
"""
"""Executes earlier programs in the namespace of the next one, like a harness with a shared namespace."""

Run = Callable[[Sample], Verdict]


class Explained(NamedTuple):
    verdict: Verdict
    outcome: str
    """`timeout` if a variant ran out of time, so that the search for a cause is repeated alone; else ""."""


class Causes:
    """Causes of the differing verdicts of one log; `samples`: the whole log, in its order."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self.samples = samples
        self._place = {sample.id: place for place, sample in enumerate(samples)}

    def explain(self, run: Run, verdict: Verdict) -> Explained:
        """The verdict with the first cause that an execution shows; `run` executes a sample."""
        outcomes: list[str] = []

        def watched(sample: Sample) -> Verdict:
            result = run(sample)
            if result.broken:  # no evidence, although it did not pass
                raise HarnessError(result.detail)
            outcomes.append(result.outcome)
            return result

        search = self._passes_here if verdict.passed else self._fails_here
        try:
            cause, detail, leaked_from = next(search(watched, verdict), ("", "", ""))
            explained = replace(verdict, cause=cause, evidence=detail, leaked_from=leaked_from)
        except HarnessError as problem:
            detail = f"the harness failed in the search for a cause: {problem}"
            explained = replace(verdict, evidence=detail, is_searched=False)
        return Explained(explained, "timeout" if "timeout" in outcomes else "")

    def _passes_here(self, run: Run, verdict: Verdict) -> Iterator[tuple[str, str, str]]:
        """Logged as failed."""
        sample, is_slow = verdict.sample, verdict.seconds >= SLOW
        if not is_slow:
            yield from _unstable(run, verdict)
        culprits = self._binders(sample, _words(sample.program) & set(dir(builtins)))
        if culprits and _fails(shared := run(_after(culprits.values(), sample))):
            first = next(iter(culprits.values())).id
            text = f"passes alone; fails once {_names(culprits)} shares the namespace ({shared.detail})"
            yield "shared_namespace", text, first
        if is_slow:
            yield "slow", f"passes after {verdict.seconds:.1f} s", ""
        reply = _reply(sample)
        cut = "" if sample.bare or reply == sample.program else STOPS.split(reply)[0]
        if cut.strip() and cut != reply and _fails(short := run(replace(sample, program=sample.prompt + cut))):
            yield "stop_sequence", f"without what follows: {short.detail}", ""
        if sample.bare and _fails(bare := run(replace(sample, program=sample.bare))):
            yield "own_imports", f"without what this audit puts before it: {bare.detail}", ""
        last = sample.attempts[-1] if sample.attempts else sample.program
        if last != sample.program and not run(replace(sample, program=last)).passed:
            yield "other_attempt", "the last attempt, which is not the stored solution, fails", ""

    def _fails_here(self, run: Run, verdict: Verdict) -> Iterator[tuple[str, str, str]]:
        """Logged as passed."""
        sample = verdict.sample
        if not sample.program.strip():
            yield "no_program", "logged as solved without a stored program", ""
            return
        if verdict.outcome == "no_tests":
            yield "no_test", "", ""
            return
        if module := MISSING_MODULE.search(verdict.detail):
            yield "missing_module", f"the sandbox has no `{module[1]}`", ""
        if verdict.outcome != "timeout":
            yield from _unstable(run, verdict)
            yield from self._variants(run, verdict)
        others = [program for program in dict.fromkeys(sample.attempts) if program != sample.program]
        if any(run(replace(sample, program=program)).passed for program in reversed(others)):
            yield "other_attempt", "another attempt, which is not the stored solution, passes", ""
        if verdict.outcome == "memory" or DENIED.search(verdict.detail):
            yield "sandbox_limit", "", ""

    def _variants(self, run: Run, verdict: Verdict) -> Iterator[tuple[str, str, str]]:
        """Programs that a more lenient harness executes."""
        sample = verdict.sample
        program, name = sample.program, sample.entry_point
        reply, task = _reply(sample), Task(task_id="", prompt=sample.prompt, entry_point=name)
        taken = extract(reply, task).program if len(reply) <= CODE_CHARS else ""
        is_moved = "".join(taken.split()) == "".join(program.split())
        imported = "".join(f"{line}\n" for test in sample.tests for line in IMPORT_LINE.findall(test))
        free = MISSING_NAME.search(verdict.detail)
        others = [f"{program}\n{name} = {other}" for other in _functions(program, name)] if free else []
        programs: list[tuple[str, str]] = [
            ("missing_import", IMPORTS + program),
            ("missing_import", IMPORTS + MORE_IMPORTS + imported + program if free else ""),
            ("missing_prompt", completed(sample.prompt, program) if sample.prompt not in program else ""),
            ("stray_quote", without_stray_quote(program)),
            ("indentation" if is_moved else "markup", taken),
            ("as_script", f"__name__ = '__main__'\n{program}" if "__main__" in program else ""),
            ("recursion_limit", RECURSION + program if "RecursionError" in verdict.detail else ""),
        ]
        passing = {
            cause: VARIANTS[cause]
            for cause, text in programs
            if text not in ("", program) and all(run(replace(sample, program=text)).passed for _ in range(2))
        }
        leaked_from = ""
        if missing := MISSING_NAME.search(verdict.detail):
            culprits = self._binders(sample, _words(sample.program) | {sample.entry_point})
            source = culprits.get(missing[1])
            if source and run(_after(culprits.values(), sample)).passed:
                passing["shared_namespace"] = f"passes once {_names({missing[1]: source})} shares the namespace"
                leaked_from = source.id
        if not passing and any(run(replace(sample, program=other)).passed for other in others):
            passing["other_name"] = VARIANTS["other_name"]
        if passing:
            yield next(iter(passing)), "; ".join(passing.values()), leaked_from

    def _binders(self, sample: Sample, names: Iterable[str]) -> dict[str, Sample]:
        """By name, the last earlier sample of the run that binds it, for names that the sample does not bind itself."""
        free = set(names) - _bound(sample.program)
        binders: dict[str, Sample] = {}
        for other in self.samples[: self._place[sample.id]]:
            if other.run == sample.run:
                binders |= dict.fromkeys(_bound(other.program) & free, other)
        return dict(sorted(binders.items(), key=lambda pair: self._place[pair[1].id]))


def self_grading(verdicts: Sequence[Verdict]) -> tuple[list[Verdict], list[SelfGraded]]:
    """The verdicts, those without a cause explained by `self_graded`, and what the log's verdicts follow from."""
    rules = self_graded(verdicts)
    causes = {name: str(rule) for rule in reversed(rules) for name in rule.wrong}
    explained = [
        replace(verdict, cause="self_graded", evidence=causes[verdict.sample.id])
        if verdict.sample.id in causes
        else verdict
        for verdict in verdicts
    ]
    return explained, rules


def from_other_logs(logs: Sequence[Sequence[Verdict]]) -> list[list[Verdict]]:
    """The verdicts of several logs; one without a cause has that of the same program, tests and verdicts elsewhere.

    The same run may be logged twice, once without its attempts: in both, tasks have the same programs and verdicts. In
    another run the same program may differ for another reason, and `self_graded` is a cause of a log, not of a program.
    """
    runs: list[dict[str, dict[str, list[Verdict]]]] = [{} for _ in logs]
    """Verdicts of each log, by run and task."""
    for of_log, log in zip(runs, logs, strict=True):
        for verdict in log:
            of_log.setdefault(verdict.sample.run, {}).setdefault(verdict.sample.task_id, []).append(verdict)
    explained: list[list[Verdict]] = []
    for place, log in enumerate(logs):
        others = [run for number, other in enumerate(runs) if number != place for run in other.values()]
        same = {name: [other for other in others if _is_same(run, other)] for name, run in runs[place].items()}
        explained.append([_explained_elsewhere(verdict, same[verdict.sample.run]) for verdict in log])
    return explained


def _is_same(run: Mapping[str, Sequence[Verdict]], other: Mapping[str, Sequence[Verdict]]) -> bool:
    """Whether the tasks of both have equal programs and verdicts, in nine of ten."""
    common = run.keys() & other.keys()
    equal = sum(not {*map(_case, run[task])}.isdisjoint(map(_case, other[task])) for task in common)
    return bool(common) and equal >= SAME * len(common)


def _explained_elsewhere(verdict: Verdict, runs: Sequence[Mapping[str, Sequence[Verdict]]]) -> Verdict:
    if not verdict.differs or verdict.cause:
        return verdict
    for other in (other for run in runs for other in run.get(verdict.sample.task_id, ())):
        if other.differs and other.cause not in ("", "self_graded") and _case(other) == _case(verdict):
            evidence = f"as {other.sample.id} in another log: {other.evidence or CAUSES[other.cause]}"
            return replace(verdict, cause=other.cause, evidence=evidence)
    return verdict


def _case(verdict: Verdict) -> tuple[object, ...]:
    sample = verdict.sample
    return sample.task_id, sample.program.strip(), sample.tests, sample.logged, verdict.outcome


def _fails(verdict: Verdict) -> bool:
    """Whether a variant fails by itself; time may also run out in what was put before it."""
    return not verdict.passed and verdict.outcome != "timeout"


def _reply(sample: Sample) -> str:
    """The text of the log that the program is, or that completes the prompt."""
    return sample.program.removeprefix(IMPORTS).removeprefix(sample.prompt)


def _functions(program: str, name: str) -> list[str]:
    """Functions of the program, and the method `name` of its classes, as expressions; the last first."""
    names = re.findall(r"^(?:async )?def[ \t]+(\w+)", program, re.MULTILINE)
    classes = re.findall(r"^class[ \t]+(\w+)", program, re.MULTILINE)
    return [f"{owner}().{name}" for owner in classes[::-1]] + names[:-6:-1]


def _unstable(run: Run, verdict: Verdict) -> Iterator[tuple[str, str, str]]:
    # `from __future__` must stay the first statement
    draws = "random" in verdict.sample.program and "__future__" not in verdict.sample.program
    for number in range(1, REPEATS + 1):
        front = SEEDED.format(number) if draws else ""
        if run(replace(verdict.sample, program=front + verdict.sample.program)).passed != verdict.passed:
            yield "unstable", f"execution {number + 1} has the other verdict", ""


def _after(earlier: Iterable[Sample], sample: Sample) -> Sample:
    sources = list(dict.fromkeys(other.program for other in earlier))
    return replace(sample, program=REPLAY.format(sources=[*sources, sample.program]))


def _names(culprits: dict[str, Sample]) -> str:
    return " and ".join(f"`{name}` of {sample.id}" for name, sample in sorted(culprits.items()))


def _words(program: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", program))


@functools.lru_cache(maxsize=4096)
def _bound(program: str) -> frozenset[str]:
    """Names that a program binds at its top level."""
    names = {name for pair in BINDING.findall(program) for name in pair if name}
    for listed in IMPORTING.findall(program):
        for part in re.sub(r"[()\\]|#.*", " ", listed).split(","):
            if words := part.split():
                names.add(words[-1].split(".")[0])
    return frozenset(names)
