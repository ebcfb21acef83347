"""A task's history as HTML: attempts side by side, programs as differences, and the memory items each one read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from itertools import dropwhile, takewhile, zip_longest
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab import records
from reflexion_lab.agent.critique.convergence import improvement_score
from reflexion_lab.analysis.report import pieces
from reflexion_lab.analysis.report.cells import listed
from reflexion_lab.analysis.report.pieces import check_details, outcome_words, tally
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.estimators import tokens, verdict
from reflexion_lab.loop.policy import FRESH, is_tree, with_parents
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.memory.curators.history import Timeline
from reflexion_lab.memory.episodic import episode_of
from reflexion_lab.text.replies.answers import RULES

OPEN = 2
"""Number of an attempt's last turns that are unfolded."""
MOST_LINES = 2_000
"""Maximum lines of a program; the difference of longer ones could take minutes."""
Pieces = tuple[tuple[str, bool], ...]
"""A line in pieces, each with whether it changed."""


class Line(NamedTuple):
    kind: str
    """`same`, `in`, `out` or `gap`."""
    gutter: str
    parts: Pieces


def program(new: str, old: str = "", name: str = "") -> tuple[list[Line], str]:
    """Lines of `new`, as its difference to `old` (called `name`), and a remark on them."""
    after, before = lines(new), lines(old)
    if not after:
        return [], "none in the reply"
    if max(len(after), len(before)) > MOST_LINES:
        return numbered(after[:MOST_LINES]), f"{len(after):,} lines, of which at most {MOST_LINES:,} are shown"
    if not before:
        return numbered(after), ""
    if after == before:
        return numbered(after), f"same as {name}"
    changed = _from_first(_difference(before, after))
    gone, come = ([line.kind for line in changed].count(kind) for kind in ("out", "in"))
    return changed, f"diff to {name}: −{gone} +{come} lines"


class Turn(NamedTuple):
    """A step, prepared for the template."""

    number: int
    step: records.Step
    lines: list[Line]
    """Lines of its draft; [] without one, or for the draft before unchanged."""
    remark: str
    """Remark on the lines."""
    improvement: float | None
    """Improvement on the draft judged before; None without two critiques."""
    received: tuple[records.Message, ...]
    """Messages that the turn before had not received."""
    known: str
    """Remark on the messages already received; "" for none."""
    is_open: bool


def turns(steps: Sequence[records.Step]) -> Iterator[Turn]:
    """Each draft as its difference to the one before."""
    draft, name, received, judged = "", "", tuple[records.Message, ...](), None
    for number, step in enumerate(steps, 1):
        changed, remark = program(step.program, draft, name) if step.program else ([], "")
        again = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(received, step.messages, strict=False)))
        yield Turn(
            number,
            step,
            [] if lines(step.program) == lines(draft) else changed,
            remark,
            improvement_score(judged, step.critique) if judged and step.critique else None,
            step.messages[again:],
            f" behind {again} earlier message{'s' * (again > 1)}" if again else "",
            number > len(steps) - OPEN,
        )
        draft, name = (step.program, f"turn {number}") if step.program else (draft, name)
        received, judged = step.messages or received, step.critique or judged


def lines(text: str) -> list[str]:
    """Lines as Python counts them; `splitlines` would break at more characters."""
    return text.rstrip("\n").split("\n") if text.strip() else []


def numbered(lines: list[str]) -> list[Line]:
    return _from_first(Line("same", f"{n:>3}   ", ((line, False),)) for n, line in enumerate(lines, 1))


def _from_first(lines: Iterable[Line]) -> list[Line]:
    """Without the blank lines at the top, which still count in the numbering."""
    return list(dropwhile(lambda line: line.kind == "same" and not any(text.strip() for text, _ in line.parts), lines))


def _difference(old: list[str], new: list[str]) -> Iterator[Line]:
    """Changed lines with three lines of context; others are counted. Gutter: old and new line number."""
    end = 0
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(3):
        yield from _gap(group[0][3] - end)
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                same = enumerate(new[j1:j2], 1)
                yield from (Line("same", f"{i1 + n:>3} {j1 + n:>3}   ", ((line, False),)) for n, line in same)
            else:
                pairs = [_compared(*pair) for pair in zip_longest(old[i1:i2], new[j1:j2], fillvalue="")]
                yield from (Line("out", f"{i + 1:>3}     − ", pairs[i - i1][0]) for i in range(i1, i2))
                yield from (Line("in", f"    {j + 1:>3} + ", pairs[j - j1][1]) for j in range(j1, j2))
        end = group[-1][4]
    yield from _gap(len(new) - end)


def _gap(left_out: int) -> Iterator[Line]:
    if left_out:
        yield Line("gap", "  ⋯       ", ((f"{left_out} unchanged", False),))


def _compared(old: str, new: str) -> tuple[Pieces, Pieces]:
    """Two lines with their changed words marked; dissimilar or very long lines are left whole."""
    whole = ((old, False),), ((new, False),)
    if not old or not new or len(old) + len(new) > 2_000:
        return whole
    a, b = (re.findall(r"\w+|\s+|\W", line) for line in (old, new))
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    ratios = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)  # the quickest first
    if len(a) + len(b) > 400 or any(ratio() < 0.6 for ratio in ratios):
        return whole
    steps = matcher.get_opcodes()
    before = tuple(("".join(a[i:j]), tag != "equal") for tag, i, j, _, _ in steps if i < j)
    return before, tuple(("".join(b[i:j]), tag != "equal") for tag, _, _, i, j in steps if i < j)


Words = list[tuple[str, str]]
"""Labels with texts."""
OWN = "this task"
NAMED = 3
"""Tasks or other sources that are named; others are counted."""


class MemoryItem(NamedTuple):
    """An item recalled from memory."""

    kind: str
    """`episode`, `wisdom`, `mistake`, `item` or `insight`."""
    name: str
    """Its id; of an insight, its text."""
    where: str
    """Its origin in words; "" if the id does not name it."""
    words: Words
    """Its content; [] if the run does not hold it."""
    is_own: bool
    """Its content is also shown with another attempt of the loop."""
    retrieved: records.Retrieved | None


class Sources:
    """Sources of memory items: attempts by task, the id of their run ("" for none), wisdom from before the run, the
    curator's items over the rounds, the round of each task, and the curator's calls.
    """

    def __init__(
        self,
        attempts: Mapping[str, Sequence[records.Attempt]],
        run_id: str = "",
        wisdom: Iterable[records.Wisdom] = (),
        timeline: Timeline | None = None,
        rounds: Mapping[str, int] | None = None,
        updates: Iterable[records.Update] = (),
    ) -> None:
        self._attempts = attempts
        self._run_id = run_id
        self._before = {entry.wisdom_id: entry for entry in wisdom}
        self._timeline = timeline or Timeline((), ())
        self._rounds = rounds or {}
        self._calls: dict[str, list[records.Update]] = {}
        for update in updates:
            for task_id in update.task_ids:
                self._calls.setdefault(task_id, []).append(update)

    @classmethod
    def of(cls, log: Log) -> Sources:
        """Raises DataError: as of `Timeline`."""
        wisdom = log.beginning.wisdom if log.beginning else ()
        return cls(log.attempts, log.manifest.run_id, wisdom, log.timeline, log.rounds, log.updates)

    def calls(self, task_id: str) -> Sequence[records.Update]:
        """The calls of the curator to which the task's loop led."""
        return self._calls.get(task_id, ())

    def memory_items(self, attempt: records.Attempt) -> list[MemoryItem]:
        """Items recalled for the attempt, in reading order."""
        of: dict[str, Callable[[str, records.Attempt], tuple[str, Words]]] = {
            "episode": self._episode, "wisdom": self._wisdom, "mistake": self._mistake, "item": self._item,
            "insight": lambda text, _: ("", [("text", text)]),
        }  # fmt: skip
        places = {item.item_id: item for item in attempt.retrieved}
        again = attempt.recalled_items if attempt.number > 1 else ()  # a loop reads one selection
        entries = ((kind, name) for kind, names in attempt.recalled_by_kind.items() for name in names)
        resolved = ((kind, name, *of[kind](name, attempt)) for kind, name in entries)
        return [
            MemoryItem(kind, name, where, words, where.endswith(OWN) or name in again, places.get(name))
            for kind, name, where, words in resolved
        ]

    def _episode(self, name: str, reader: records.Attempt) -> tuple[str, Words]:
        attempts, where, last = self._loop(name, reader)
        if not last.isdecimal():
            return where, []
        where = f"attempt {last} at {where}"
        source = next((attempt for attempt in attempts if attempt.number == int(last)), None)
        return where, list(_episode_fields(source)) if source else []

    def _mistake(self, name: str, reader: records.Attempt) -> tuple[str, Words]:
        """The id names the task, not the attempt: all failures there are listed."""
        attempts, where, _ = self._loop(name, reader)
        failed = [attempt for attempt in attempts if not attempt.evaluation.passed]
        return where, [(f"attempt {attempt.number}", _failure(attempt)) for attempt in failed]

    def _loop(self, name: str, reader: records.Attempt) -> tuple[Sequence[records.Attempt], str, str]:
        """The attempts of the loop that the id names, that loop in words, and the end of the id."""
        parts = records.ITEM_SOURCE.fullmatch(name.replace(f"-{self._run_id}/", "-", 1) if self._run_id else name)
        if not parts:
            return (), "", ""
        run, task, last = parts["run"] or self._run_id, parts["task"], parts["last"]
        if run != self._run_id:
            return (), f"{task}, run {run}", last
        return self._attempts.get(task, ()), OWN if task == reader.task_id else task, last

    def _wisdom(self, name: str, _: records.Attempt) -> tuple[str, Words]:
        since = "" if name in self._before else ", as it stood at the end"
        entry = self._before.get(name) or self._extracted.get(name)
        if not entry:
            return "", []
        tasks = listed(entry.tasks, NAMED)
        words = [("pattern", entry.pattern), ("advice", entry.advice)]
        counts = f"{entry.frequency} attempts at {tasks}" if tasks else f"{entry.frequency} attempts"
        return counts + since, [(label, text) for label, text in words if text]

    def _item(self, name: str, reader: records.Attempt) -> tuple[str, Words]:
        """Sources of an item of the curator, and its contents as they were, with what became of them."""
        written = next((item for item in reader.written_items if item.item_id == name), None)
        number = self._rounds.get(reader.task_id, 0)
        item = written or self._timeline.before(name, number)
        if item is None:
            return "", []
        since = "written for this task alone" if written else self._since(item, number)
        words = {"section": item.section, "text": item.text, "counts": counted(item), "since": since}
        return listed(item.sources, NAMED), [(label, text) for label, text in words.items() if text]

    def _since(self, item: records.Item, number: int) -> str:
        last, now = self._timeline.last(item.item_id)
        if last < number:
            return ""
        if now is None:
            return f"removed in round {last}"
        return f"changed up to round {last}: {now.text if now.text != item.text else counted(now)}".rstrip(": ")

    @cached_property
    def _extracted(self) -> dict[str, records.Wisdom]:
        """Wisdom from all attempts together; during the run memory held less."""
        from reflexion_lab.memory.lessons.wisdom import wisdom_of

        every = (attempt for attempts in self._attempts.values() for attempt in attempts if attempt.reflection)
        return {entry.wisdom_id: entry for entry in wisdom_of(map(_as_episode, every))}


def counted(item: records.Item) -> str:
    """`helpful 2, harmful 0`."""
    return ", ".join(f"{name} {n}" for name, n in item.counts.items())


def _as_episode(attempt: records.Attempt) -> records.Episode:
    words = attempt.reflection
    if words:  # no store can hold a lone surrogate
        words = replace(words, root_cause=words.root_cause.encode(errors="replace").decode())
    task_id, repetition = records.identity(attempt.task_id)
    task = records.Task(task_id=task_id, repetition=repetition, prompt="", entry_point="")
    return episode_of(task, replace(attempt, reflection=words), attempt.task_id, agent_id="")


def _episode_fields(attempt: records.Attempt) -> Iterator[tuple[str, str]]:
    """Verdict and reflection of an episode."""
    yield "verdict", outcome_words(attempt)
    if words := attempt.reflection:
        fields = {"root cause": words.root_cause, "to change": words.what_to_change}
        yield from ((label, text) for label, text in fields.items() if text.strip())


def _failure(attempt: records.Attempt) -> str:
    failures = attempt.evaluation.failures
    if not failures:
        return outcome_words(attempt)
    sides = ", ".join(f"{label} {text}" for label, text in check_details(failures[0]))
    return f"{failures[0].name}: {sides}"


class Card(NamedTuple):
    """An attempt, prepared for the template."""

    attempt: records.Attempt
    before: records.Attempt | None
    """The attempt to whose program the difference is shown."""
    grade: records.Grade | None
    """The hidden verdict, if any."""
    is_submitted: bool
    lines: list[Line]
    """Lines of its program."""
    heading: str
    """Remark on the lines."""
    turns: list[Turn]
    memory_items: list[MemoryItem]

    @property
    def noun(self) -> str:
        """What the actor gave: `program`, `answer` or `actions`."""
        work = self.attempt.trajectory
        return "answer" if work.extraction in RULES else "actions" if work.strategy == "play" else "program"

    @property
    def tokens(self) -> int:
        """Tokens of all roles."""
        return tokens(self.attempt)


def card(
    attempt: records.Attempt,
    before: records.Attempt | None = None,
    grade: records.Grade | None = None,
    sources: Sources | None = None,
    is_submitted: bool = False,
) -> Card:
    trajectory = attempt.trajectory
    actor_turns = list(turns(trajectory.steps))
    old = (before.trajectory.solution, f"attempt {before.number}") if before else ()
    diff, remark = program(trajectory.solution, *old)
    remark = trajectory.reply if trajectory.finish_reason == "refused" and not diff else remark
    drafts = [turn.number for turn in actor_turns if turn.step.program and turn.step.program == trajectory.solution]
    heading = "; ".join(filter(None, [f"the draft of turn {drafts[-1]}" if drafts else "", remark]))
    memory_items = (sources or Sources({attempt.task_id: [attempt]})).memory_items(attempt)
    return Card(attempt, before, grade, is_submitted, diff, heading, actor_turns, memory_items)


def cards(
    attempts: Sequence[records.Attempt], grades: Mapping[tuple[str, int], records.Grade], sources: Sources | None = None
) -> Iterator[Card]:
    """Cards of one loop, oldest first; without `sources`, memory items are resolved within the loop."""
    sources = sources or Sources({attempts[0].task_id: attempts})
    submitted = submitted_at(attempts).number
    for before, attempt in with_parents(attempts):
        yield card(attempt, before, grades.get((attempt.task_id, attempt.number)), sources, attempt.number == submitted)


def history(
    attempts: Sequence[records.Attempt],
    grades: Mapping[tuple[str, int], records.Grade],
    sources: Sources | None = None,
    label: str = "",
) -> str:
    """The history of one loop of at least one attempt, titled `label` or by its task."""
    task_id = attempts[0].task_id
    calls = sources.calls(task_id) if sources else ()
    every = list(cards(attempts, grades, sources))
    return pieces.macro("records", "history")(every, label or task_id, calls, tree_lines(every))


def tree_lines(every: Sequence[Card]) -> list[str]:
    """The tree of a loop, a line per attempt below the one that it continues; [] for a chain."""
    if not is_tree(card.attempt for card in every):
        return []
    children: dict[int, list[Card]] = {}
    for each in every:
        children.setdefault(each.attempt.parent, []).append(each)

    def below(number: int, margin: str) -> Iterator[str]:
        *others, last = children.get(number, [None])
        for each in filter(None, (*others, last)):
            attempt, passed = each.attempt, verdict(each.grade)
            right, total = tally(attempt.evaluation)
            hidden = {True: " · hidden ✓", False: " · hidden ✗", None: ""}[passed]
            mark = "✓" if attempt.evaluation.passed else "✗"
            facts = f"{attempt.number} {mark} {right} of {total}{hidden} · {each.tokens:,} tokens"
            yield f"{margin}{'└' if each is last else '├'}─ {facts}{' · submitted' * each.is_submitted}"
            yield from below(attempt.number, margin + ("   " if each is last else "│  "))

    return list(below(FRESH, ""))
