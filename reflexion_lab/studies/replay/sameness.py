"""A run against its replay: what is the same, and where the first difference is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import bare, differences, essence, figures
from reflexion_lab.errors import ModelError
from reflexion_lab.records import Attempt, Manifest, Record
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.text.shorten import cut

RECORDS = {
    "attempts": "attempts",
    "submissions": "result",
    "hidden verdicts": "grades",
    "tests by the model": "written_tests",
    "their verdicts": "suite_verdict",
}
SHOWN = 120
"""Characters of a value."""


class Row(Record, frozen=True, kw_only=True):
    """One thing that was compared."""

    name: str
    same: bool
    told: str
    """How many, where it is the same; else where the first difference is."""


class Sameness(Record, frozen=True, kw_only=True):
    """All that was compared."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    """What is another here and need not be the same, such as versions of packages."""

    @property
    def holds(self) -> bool:
        return all(row.same for row in self.rows)

    @property
    def first(self) -> str:
        """The first difference; "" where there is none."""
        return next((f"{row.name}: {row.told}" for row in self.rows if not row.same), "")


def compare(then: Log, packed: Mapping[str, Any], folder: RunFolder, problem: ModelError | None) -> Sameness:
    """A run and its replay.

    Parameters
    ----------
    then : Log
        The run.
    packed : mapping
        Its headline figures, as they were when it was packed.
    folder : RunFolder
        The replay.
    problem : ModelError, optional
        A reply that the replay asked for and that was not recorded: it ended there.
    """
    now = Log.read(folder)
    rows = [*_conditions(then.manifest, now.manifest), _beginning(then, now)]
    if problem:
        rows.append(_gone_astray(then, folder.attempts, problem))
    rows += _records(then, now)
    if not problem:
        rows += _figures(packed, figures(now))
    return Sameness(rows=tuple(rows), notes=tuple(_notes(then.manifest, now.manifest)))


def _conditions(then: Manifest, now: Manifest) -> Iterator[Row]:
    before, after = ((run.benchmark, run.benchmark_digest, run.n_expected) for run in (then, now))
    same = f"{then.n_expected} of {then.benchmark}"
    yield _row("tasks", before == after, same, f"{then.benchmark} has another digest or number of tasks here")
    templates = sorted(
        name
        for name in then.prompt_digests.keys() | now.prompt_digests.keys()
        if then.prompt_digests.get(name) != now.prompt_digests.get(name)
    )
    yield _row("prompts", not templates, f"{len(then.prompt_digests)} templates", ", ".join(templates))
    yield _row("study", then.study_digest == now.study_digest, then.study or "none", "another digest")


def _beginning(then: Log, now: Log) -> Row:
    places = list(differences(*(bare(log.beginning, log.manifest.run_id) for log in (then, now))))
    same = f"{then.beginning.episodes} episodes, {len(then.beginning.wisdom)} wisdom" if then.beginning else "none"
    return _row("memory at the start", not places, same, _place(places))


def _records(then: Log, now: Log) -> Iterator[Row]:
    before, after = essence(then), essence(now)
    by_time = _timed_out_apart(then.attempts, now.attempts)
    for name, field in RECORDS.items():
        pairs = {task: (before[task][field], after.get(task, {}).get(field)) for task in before}
        count = sum(len(value) if isinstance(value, list) else value is not None for value, _ in pairs.values())
        if not count and not any(value for _, value in pairs.values()):
            continue
        different = {task: list(differences(*pair)) for task, pair in pairs.items() if pair[0] != pair[1]}
        task = next((task for task in different if task in by_time), next(iter(different), ""))
        where = f"{len(different)} of {len(before)} tasks; {task}, {_place(different.get(task, []))}"
        yield _row(name, not different, str(count), where + _blamed(by_time))


def _figures(packed: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Row]:
    """One row for all that are the same, one for each that is not."""
    for name in ("pass_at_1", "pass_at_1_first"):
        if packed.get(name) and packed[name] == now.get(name):
            yield _row(name, True, f"{packed[name]['k']} of {packed[name]['n']}", "")
    changed = {name: list(differences(packed.get(name), now.get(name))) for name in packed}
    for name, places in changed.items():
        if places:
            yield _row(name, False, "", _place(places))
    yield _row("headline figures", not any(changed.values()), f"{len(changed)} to the last digit", "see above")


def _gone_astray(then: Log, replayed: Mapping[str, Sequence[Attempt]], problem: ModelError) -> Row:
    """The replay asked for a reply that was not recorded; what came before says why."""
    run_ids = then.manifest.run_id
    by_time = _timed_out_apart(then.attempts, replayed, partly=True)
    for task, attempts in replayed.items():
        before = bare(then.attempts.get(task, [])[: len(attempts)], run_ids)
        if places := list(differences(before, bare(attempts, run_ids), "attempts")):
            return _row("calls", False, "", f"{task}, {_place(places)}{_blamed(by_time)}")
    reason = "; ".join([str(problem), *getattr(problem, "__notes__", ())])
    return _row("calls", False, "", f"{' '.join(reason.split())}{_blamed(by_time)}")


def _timed_out_apart(
    then: Mapping[str, Sequence[Attempt]], now: Mapping[str, Sequence[Attempt]], partly: bool = False
) -> list[str]:
    """Tasks on which a program, or the loop, ran out of time in one of the two alone."""
    apart = []
    for task in then:
        before, after = then[task], now.get(task, ())
        pairs = (
            zip(before, after, strict=False) if partly else zip(before[: len(after)], after[: len(before)], strict=True)
        )
        if any(_timed_out(a) != _timed_out(b) for a, b in pairs):
            apart.append(task)
    return apart


def _timed_out(attempt: Attempt) -> tuple[object, ...]:
    checks = tuple(number for number, check in enumerate(attempt.evaluation.checks) if check.outcome == "timeout")
    return checks, attempt.stop_reason == "timeout"


def _blamed(by_time: Sequence[str]) -> str:
    if not by_time:
        return ""
    return f" (a time-out: a program ended in time in one of the two alone, first on {by_time[0]})"


def _notes(then: Manifest, now: Manifest) -> Iterator[str]:
    for name in sorted(then.package_versions.keys() | now.package_versions.keys()):
        before, after = (manifest.package_versions.get(name, "none") for manifest in (then, now))
        if before != after:
            yield f"{name}: {before} then, {after} here"
    if then.isolation != now.isolation:
        yield f"isolation: {', '.join(then.isolation)} then, {', '.join(now.isolation)} here"


def _place(places: Sequence[tuple[str, Any, Any]]) -> str:
    """The first of the differences in words."""
    if not places:
        return ""
    at, before, after = places[0]
    return f"{at}: {cut(repr(before), SHOWN)} then, {cut(repr(after), SHOWN)} here"


def _row(name: str, same: bool, if_same: str, if_not: str) -> Row:
    return Row(name=name, same=same, told=if_same if same else if_not)
