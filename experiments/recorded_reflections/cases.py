"""Evidence: a line per recorded reflection that a further attempt followed, with its flags by rule, and no text.

    python -m experiments.recorded_reflections.cases FILE... --out DIR [--sheet SHEET [--limit N]]

`--sheet` also writes the blind sheet of `words_and_their_controls/rating.py`, and its key beside it.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from msgspec.structs import replace

from experiments._tools import output
from experiments._tools.evidence import CASES, write_gzip
from experiments.oracle_words.constructs import parsed
from experiments.recorded_runs_compared.execution import Recording, Trial, read_recordings, trials_of, tried
from experiments.words_and_their_controls.rating import Rated
from experiments.words_and_their_controls.rating import write as write_sheet
from experiments.words_and_their_controls.words import Quality, difference, names_any, plain_tokens, quality
from reflexion_lab.audit.samples import IMPORTS
from reflexion_lab.audit.stored_programs import StoredPrograms
from reflexion_lab.audit.transcripts import Step, Transcript, human_eval_tasks
from reflexion_lab.cli.place import out_folder, positive
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Attempt, Evaluation, MemoryState, Reflection, Task, Trajectory
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.text.replies.syntax import definition

COLUMNS = (
    "item", "file", "model", "run", "task", "attempt", "next_attempt",
    "right", "right_strict", "next_right", "next_right_strict",
    "names_check", "names_cause", "names_cause_canonical", "is_advice",
    "chance_check", "chance_cause", "chance_cause_canonical", "chance_advice", "others",
    "failing", "failing_true", "words", "features", "features_canonical", "whole", "solved_singly", "single_attempts",
    "program", "reflection", "right_own", "ending",
    "chance_check_wrong", "chance_cause_wrong", "chance_cause_canonical_wrong", "chance_advice_wrong", "others_wrong",
    "chance_check_alike", "chance_cause_alike", "chance_cause_canonical_alike", "chance_advice_alike", "others_alike",
)  # fmt: skip
"""Columns of the evidence. A verdict or flag is 1, 0 or empty: not defined; `analysis.py` describes them."""
SEARCH = "reflexion-ucs"
EMPTY = MemoryState(capacity=0, size=0, in_context=0, total=0)


class Followed(NamedTuple):
    """A reflection and the attempt that read it."""

    trial: Trial
    next_step: Step

    @property
    def run_id(self) -> str:
        return f"{self.trial.recording.file}:{self.trial.recording.run}"

    @property
    def group(self) -> tuple[str, str]:
        """Reflections of one group were written by one model on one benchmark."""
        return self.trial.recording.file, self.trial.recording.model


class Judged(NamedTuple):
    """A followed reflection as an attempt of the lab."""

    followed: Followed
    attempt: Attempt
    nearest: frozenset[str]
    """Features in which the program differs from the nearest correct one; empty if there is none, or no difference."""
    canonical: frozenset[str]
    ending: str
    """Of the program: `ending`."""

    @property
    def is_wrong(self) -> bool:
        return hidden(self.followed.trial.step) is False

    @property
    def flags(self) -> Quality:
        return rules(self.attempt, self.attempt.reflection)


class Flags(NamedTuple):
    """Flags of some words about one program; None: not defined."""

    check: bool | None
    cause: bool | None
    canonical: bool | None
    advice: bool | None


def hidden(step: Step, kind: str = "lenient") -> bool | None:
    """The recorded verdict of the hidden tests: HumanEval's original ones, else the row's own."""
    source = "he" if step.verdict("he_lenient") is not None else "own"
    return step.verdict(f"{source}_{kind}")


def followed(recording: Recording) -> Iterator[Followed]:
    """The reflections of a run that a further attempt read."""
    for trial in trials_of(recording):
        following = next_step(trial.loop, trial.step, recording.strategy == SEARCH)
        if trial.step.reflection.strip() and following:
            yield Followed(trial, following)


def next_step(loop: Transcript, step: Step, is_search: bool) -> Step | None:
    """The attempt that read the reflection on `step`; None without one.

    In a search it is the first whose recorded start is the state of this attempt and of no other earlier one.
    """
    if not is_search:
        return next((other for other in loop.steps if other.number == step.number + 1), None)
    states = [tuple(state) for state in loop.fields["states"]]
    starts = [str(start) for start in loop.fields["expanded_state"]]
    for other in loop.steps[step.number :]:
        earlier = [place for place in range(other.number - 1) if str(states[place]) == starts[other.number - 1]]
        if earlier == [step.number - 1]:
            return other
    return None


def attempt_of(each: Followed, evaluation: Evaluation) -> Attempt:
    step = each.trial.step
    return Attempt(
        task_id=each.trial.loop.task_id,
        number=step.number,
        recalled=(),
        trajectory=Trajectory(solution=step.code, strategy="recorded"),
        evaluation=evaluation,
        reflection=_reflection(step),
        memory=EMPTY,
    )


def _reflection(step: Step) -> Reflection:
    return Reflection(
        reflection_id=f"{step.number}",
        about_attempt=step.number,
        root_cause="",
        what_went_wrong=step.reflection.strip(),
        what_to_change="",
        confidence=0.0,
        confidence_source="none",
        source="llm",
    )


def rules(attempt: Attempt, words: Reflection | None) -> Quality:
    """The lab's rules of a failing check and of advice for `words` on this attempt."""
    qualities = quality(replace(attempt, reflection=words))
    assert qualities, "a reflection without words is not followed"
    return qualities


def flags_of(judged: Judged, words: Reflection) -> Flags:
    """Flags of `words` if they were about this program and its failing checks."""
    qualities, text = rules(judged.attempt, words), words.what_went_wrong
    nearest, canonical = (
        names_any(text, features) if features else None for features in (judged.nearest, judged.canonical)
    )
    return Flags(qualities.names_check, nearest, canonical, qualities.is_advice)


Programs = Mapping[str, Sequence[tuple[str, Sequence[str]]]]
"""By task, distinct correct programs and their tokens, the canonical one first."""


def correct_programs(recordings: Iterable[Recording], tasks: Mapping[str, Task]) -> Programs:
    """Canonical programs, and those of runs without reflections that pass the hidden tests."""
    by_task: dict[str, dict[tuple[str, ...], str]] = defaultdict(dict)
    programs = [(name, task.canonical_program) for name, task in tasks.items()]
    for recording in recordings:
        for trial in trials_of(recording):
            if hidden(trial.step) and trial.loop.task_id in tasks:
                programs.append((trial.loop.task_id, trial.program))
    for name, program in programs:
        if tokens := plain_tokens(program):
            by_task[name].setdefault(tuple(tokens), program)
    return {name: [(program, tokens) for tokens, program in own.items()] for name, own in by_task.items()}


def nearest(program: str, correct: Sequence[tuple[str, Sequence[str]]]) -> str:
    """The correct program whose tokens agree most with those of `program`; "" without one."""
    tokens = plain_tokens(program) or []
    ratios = [SequenceMatcher(None, tokens, other, autojunk=False).ratio() for _, other in correct]
    return correct[ratios.index(max(ratios))][0] if ratios else ""


def solved_singly(recordings: Iterable[Recording]) -> dict[str, list[bool]]:
    """Hidden verdicts of the first attempts of single-shot runs, by task."""
    verdicts: dict[str, list[bool]] = defaultdict(list)
    for recording in recordings:
        if recording.known.arm == "simple":
            for loop in recording.loops:
                verdicts[loop.task_id].append(bool(hidden(loop.steps[0])))
    return verdicts


def judge(recordings: Sequence[Recording], workers: int | None) -> tuple[list[Judged], dict[str, set[str]]]:
    """All followed reflections, and by task the failing checks that its canonical program passes."""
    with_words = [recording for recording in recordings if recording.known.arm.startswith("reflexion")]
    cases = [each for recording in with_words for each in followed(recording)]
    trials = [each.trial for each in cases]
    tasks = {trial.loop.task_id: task for trial in trials if (task := _known(trial))}
    with StoredPrograms(workers) as programs:
        evaluations = programs.map(tried, trials)
        on_canonical = programs.map(_on_canonical, trials)
    others = [recording for recording in recordings if recording not in with_words]
    correct = correct_programs(others, tasks)
    true_checks: dict[str, set[str]] = defaultdict(set)
    judged = []
    for each, evaluation, canonical in zip(cases, evaluations, on_canonical, strict=True):
        program, task_id = each.trial.step.code, each.trial.loop.task_id
        near = nearest(program, correct.get(task_id, ()))
        features = difference(program, near), difference(program, _canonical(each.trial))
        end = ending(program, each.trial.loop.task.entry_point)
        judged.append(Judged(each, attempt_of(each, evaluation), *features, end))
        true_checks[each.run_id + task_id] |= {check.name for check in canonical.checks if check.outcome == "pass"}
    return judged, true_checks


def _known(trial: Trial) -> Task | None:
    """The task of HumanEval; None if it is another benchmark's, of which no canonical program is recorded."""
    return human_eval_tasks().get(trial.loop.task_id)


def _canonical(trial: Trial) -> str:
    task = _known(trial)
    return task.canonical_program if task else ""


def _on_canonical(sandbox: Sandbox, trial: Trial) -> Evaluation:
    """The feedback tests on the canonical program; no verdict without one."""
    program = _canonical(trial)
    tests = trial.tests if program else ()
    return run_tests(sandbox, replace(trial.task, setup=""), IMPORTS + program, tests)


def rows(
    judged: Sequence[Judged], true_checks: Mapping[str, set[str]], singles: Mapping[str, Sequence[bool]]
) -> Iterator[list[object]]:
    groups: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for each in judged:
        groups[each.followed.group].append(each)
    for each in judged:
        trial, step = each.followed.trial, each.followed.next_step
        words = _words(each)
        others = [other for other in groups[each.followed.group] if other.attempt.task_id != each.attempt.task_id]
        on_wrong = [other for other in others if other.is_wrong]
        alike = [other for other in on_wrong if (other.ending == "whole") == (each.ending == "whole")]
        flags = {id(other): flags_of(each, _words(other)) for other in others} if each.is_wrong else {}
        chance, chance_wrong, chance_alike = (
            _chance([flags[id(other)] for other in some if flags]) for some in (others, on_wrong, alike)
        )
        failing = each.attempt.evaluation.failures
        passing = true_checks[each.followed.run_id + trial.loop.task_id]
        single = singles.get(trial.loop.task_id, ())
        known = bool(_canonical(trial))
        verdicts = (hidden(each, kind) for each in (trial.step, step) for kind in ("lenient", "pass"))
        yield [
            rated(each).id, trial.recording.file.partition(".")[0], trial.recording.model, trial.recording.run,
            trial.loop.task_id, trial.step.number, step.number, *map(_cell, verdicts),
            *map(_cell, flags_of(each, words)), *map(_cell, chance), len(others),
            len(failing), sum(check.name in passing for check in failing) if known else "",
            len(words.what_went_wrong.split()), len(each.nearest), len(each.canonical),
            int(is_whole(trial.step.code, trial.loop.task.entry_point)), sum(single), len(single),
            digest(trial.step.code), digest(words.what_went_wrong), _cell(trial.step.verdict("own_lenient")),
            each.ending, *map(_cell, chance_wrong), len(on_wrong), *map(_cell, chance_alike), len(alike),
        ]  # fmt: skip


def _words(judged: Judged) -> Reflection:
    assert judged.attempt.reflection
    return judged.attempt.reflection


def _chance(flags: Sequence[Flags]) -> list[float | None]:
    """Share of other reflections that would have each flag."""
    if not flags:
        return [None] * len(Flags._fields)
    columns = ([value for value in column if value is not None] for column in zip(*flags, strict=True))
    return [fmean(column) if column else None for column in columns]


def is_whole(program: str, entry_point: str) -> bool:
    """Whether the function has a `return` with a value, nested functions aside: some recorded programs are cut."""
    tree = parsed(program)
    function = definition(tree, entry_point) if tree else None
    nodes: list[ast.AST] = list(function.body) if isinstance(function, ast.FunctionDef) else []
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Return) and node.value:
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            nodes += ast.iter_child_nodes(node)
    return False


def ending(program: str, entry_point: str) -> str:
    """How a program ends.

    `whole`; `unparsed`: Python cannot parse it; `nested`: the last statement of the function defines another function;
    `no_value`: none of these.
    """
    if is_whole(program, entry_point):
        return "whole"
    tree = parsed(program)
    if tree is None:
        return "unparsed"
    function = definition(tree, entry_point)
    is_nested = isinstance(function, ast.FunctionDef) and isinstance(function.body[-1], ast.FunctionDef)
    return "nested" if is_nested else "no_value"


def digest(text: str) -> str:
    """The first 12 digits of the SHA-256: equal texts can be counted without them."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]


def _cell(value: bool | float | None) -> object:
    return "" if value is None else int(value) if isinstance(value, bool) else round(value, 4)


def rated(each: Judged) -> Rated:
    """The reflection with its item number of the blind sheet."""
    return Rated(each.followed.run_id, each.attempt, each.attempt.task_id, each.flags)


def is_primary(file: str, right: bool | None) -> bool:
    """Whether a reflection is of the primary comparison, but for a failing check."""
    return file.startswith(("agentevals_reflexion", "cray")) and right is False


def sheet(path: Path, judged: Sequence[Judged], limit: int) -> list[Path]:
    """The blind sheet of reflections of the primary comparison, and its key."""
    items = [each for each in judged if is_primary(each.followed.trial.recording.file, not each.is_wrong)]
    items = [each for each in items if each.attempt.evaluation.failures]
    tasks: dict[str, dict[str, Task]] = defaultdict(dict)
    for each in items:
        tasks[each.followed.run_id][each.attempt.task_id] = each.followed.trial.task
    return [path, write_sheet(path, [rated(each) for each in items], tasks, limit)]


def parser() -> argparse.ArgumentParser:
    top = output.script_parser("cases", "flags of recorded reflections and what follows", "recorded_reflections")
    top.add_argument("files", metavar="FILE", nargs="+", type=Path, help=output.TRANSCRIPTS)
    top.add_argument("--out", metavar="DIR", default=".", help=f"write {CASES} there; default: .")
    top.add_argument("--sheet", metavar="SHEET", type=Path, help="also write a blind sheet, and its key beside it")
    top.add_argument("--limit", metavar="N", type=int, default=0, help="reflections on the sheet; 0 for all")
    top.add_argument("--workers", type=positive, metavar="N", help="programs at once (default: one per core)")
    return top


def _main(options: argparse.Namespace) -> int:
    recordings = [recording for path in options.files for recording in read_recordings(path)]
    judged, true_checks = judge(recordings, options.workers)
    lines = list(rows(judged, true_checks, solved_singly(recordings)))
    output.print_written([write_gzip(out_folder(options.out) / CASES, COLUMNS, lines)])
    output.print_written(sheet(options.sheet, judged, options.limit) if options.sheet else [])
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), _main, argv)


if __name__ == "__main__":
    sys.exit(main())
