"""Records as HTML for notebooks, and the parts of a run to step through by hand.

Records stay plain; a view is made of them. What models and programs wrote is hostile HTML: the one template escapes
every value, and control, direction and zero-width characters are spelt out. A view reads without its styles too: every
colour stands beside a word and a symbol.
"""

from __future__ import annotations

import atexit
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from itertools import dropwhile, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reflexion_lab.records import OUTCOMES, Attempt, Check, Evaluation, Grade, Record, Task

if TYPE_CHECKING:
    from reflexion_lab.benchmarks.benchmark import Benchmark
    from reflexion_lab.judge import HiddenTests
    from reflexion_lab.loop.reflexion import Reflexion

SAID = "passed, failed, raised an error, timed out, out of memory, exited early, no tests, no program, harness error"
WORDS = dict(zip(OUTCOMES, SAID.split(", "), strict=True))
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
Pieces = tuple[tuple[str, bool], ...]
"""A line in pieces, and whether each of them changed."""


class View(Record, frozen=True):
    """A piece of HTML that a notebook shows by itself; views add up, one below the other."""

    html: str
    text: str
    """The same in a line, where no HTML can be shown."""

    def __add__(self, below: View) -> View:
        return View(self.html + below.html, f"{self.text}\n{below.text}")

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


class Parts(NamedTuple):
    """What a run is made of, without a run folder and without a tracker."""

    tasks: Benchmark
    """Whole tasks; a loop gets `task.public`."""
    loop: Callable[[], Reflexion]
    """Makes one task's loop, with an empty memory: `.memory`, `.actor`, `.evaluator`, `.reflector`, `.attempts`."""
    judge: HiddenTests
    """Grades one submission a task; any attempt once it is sealed."""


def by_hand(*overrides: str) -> Parts:
    """The parts of `reflexion-lab run *overrides`.

    Raises:
        ConfigError: a value is impossible.
    """
    from reflexion_lab.config import compose, loop_factory
    from reflexion_lab.judge import HiddenTests
    from reflexion_lab.parts import load_benchmark, load_model, load_sandbox

    cfg = compose(*overrides)
    sandbox = load_sandbox(cfg, servers=1)
    atexit.register(sandbox.close)
    return Parts(load_benchmark(cfg, sandbox), loop_factory(cfg, load_model(cfg), sandbox), HiddenTests(sandbox))


def view_task(task: Task) -> View:
    """What the loop may know of a task: its prompt and its visible tests; never the hidden ones."""
    html = _macro("task")(task.public, _numbered(_lines(task.prompt)))
    return View(html, f"{task.task_id}: {task.entry_point}, {len(task.visible_tests)} visible tests")


def view_attempt(attempt: Attempt, before: Attempt | None = None) -> View:
    """One turn of the loop: verdict, program, failing checks, reflection, and word for word what the model read.

    With `before`, the program is shown as its difference to that attempt's.
    """
    html = _macro("attempt")(attempt, before, *_program(attempt, before))
    return View(html, f"attempt {attempt.number} at {attempt.task_id}: {_verdict(attempt)}")


def view_strip(attempts: Sequence[Attempt], grades: Iterable[Grade] = (), label: str = "") -> View:
    """A task's loop (one attempt or more) in a line: verdicts on shown tests and, where graded, on hidden ones."""
    from reflexion_lab.analysis.estimators import submitted_at, tokens

    submitted = submitted_at(attempts).number
    graded = {(grade.task_id, grade.number): grade for grade in grades}
    label = label or attempts[0].task_id
    html = _macro("strip")(attempts, graded, submitted, label, sum(map(tokens, attempts)))
    return View(html, f"{label}: {' → '.join(map(_verdict, attempts))}; submitted {submitted}")


def view_loop(attempts: Sequence[Attempt], grades: Iterable[Grade] = ()) -> View:
    """A whole task: the strip, then every attempt with its difference to the one before."""
    view = view_strip(attempts, grades)
    for before, attempt in zip((None, *attempts), attempts, strict=False):
        view += view_attempt(attempt, before)
    return view


class _Line(NamedTuple):
    kind: str
    """`same`, `in`, `out` or `gap`."""
    gutter: str
    parts: Pieces


def _program(attempt: Attempt, before: Attempt | None) -> tuple[list[_Line], str]:
    """The lines to show, and what they are."""
    new, old = (_lines(made.trajectory.solution) if made else [] for made in (attempt, before))
    if not new:
        return [], "none was found in the reply"
    if before is None or not old:
        return _numbered(new), ""
    if new == old:
        return _numbered(new), f"the very program of attempt {before.number}"
    lines = _from_first(_difference(old, new))
    gone, come = ([line.kind for line in lines].count(kind) for kind in ("out", "in"))
    return lines, f"against attempt {before.number}: − {gone} out, + {come} in"


def _lines(text: str) -> list[str]:
    """As Python counts them: other characters that `splitlines` breaks at are part of a line."""
    return text.rstrip("\n").split("\n") if text.strip() else []


def _numbered(lines: list[str]) -> list[_Line]:
    return _from_first(_Line("same", f"{n:>3}   ", ((line, False),)) for n, line in enumerate(lines, 1))


def _from_first(lines: Iterable[_Line]) -> list[_Line]:
    """Blank lines at the top are counted, but not shown."""
    return list(dropwhile(lambda line: line.kind == "same" and not any(text.strip() for text, _ in line.parts), lines))


def _difference(old: list[str], new: list[str]) -> Iterator[_Line]:
    """Changed lines amid three unchanged ones on each side; those left out are counted. Gutter: old, new number."""
    end = 0
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(3):
        yield from _gap(group[0][3] - end)
        for tag, i1, i2, j1, j2 in group:
            pairs = [_compared(*pair) for pair in zip_longest(old[i1:i2], new[j1:j2], fillvalue="")]
            if tag == "equal":
                yield from (_Line("same", f"{i1 + n:>3} {j1 + n:>3}   ", pair[1]) for n, pair in enumerate(pairs, 1))
            else:
                yield from (_Line("out", f"{i + 1:>3}     − ", pairs[i - i1][0]) for i in range(i1, i2))
                yield from (_Line("in", f"    {j + 1:>3} + ", pairs[j - j1][1]) for j in range(j1, j2))
        end = group[-1][4]
    yield from _gap(len(new) - end)


def _gap(left_out: int) -> Iterator[_Line]:
    if left_out:
        yield _Line("gap", "  ⋯       ", ((f"{left_out} unchanged", False),))


def _compared(old: str, new: str) -> tuple[Pieces, Pieces]:
    """Two lines in words, those that changed marked; lines that are unlike, or very long, are left whole."""
    a, b = (re.findall(r"\w+|\s+|\W", line) for line in (old, new))
    matcher = SequenceMatcher(None, a, b)
    if len(a) + len(b) > 400 or matcher.ratio() < 0.6:
        return ((old, False),), ((new, False),)
    steps = matcher.get_opcodes()
    before = tuple(("".join(a[i:j]), tag != "equal") for tag, i, j, _, _ in steps if i < j)
    return before, tuple(("".join(b[i:j]), tag != "equal") for tag, _, _, i, j in steps if i < j)


def _found(check: Check) -> list[tuple[str, str]]:
    """What a failing check says, label by label."""
    from reflexion_lab.evaluators.feedback import describe

    if check.kind != "test" and check.outcome == "fail":
        return [(f"{check.kind}, line {check.line}", f"{check.message} [{check.error_type}]")]
    said = WORDS.get(check.outcome, check.outcome), describe(check).removeprefix(f"{check.outcome}: ")
    return [side for side in (("expected", check.expected), ("got", check.actual)) if side[1]] or [said]


def _tally(evaluation: Evaluation) -> tuple[int, int]:
    """Tests that passed, and all tests; what tools find is no test."""
    tests = [check.outcome for check in evaluation.checks if check.kind == "test"]
    return tests.count("pass"), len(tests)


def _verdict(attempt: Attempt) -> str:
    outcome, (right, total) = attempt.evaluation.outcome, _tally(attempt.evaluation)
    return WORDS.get(outcome, outcome) + (f", {right} of {total} right" if total else "")


def _visible(value: Any) -> Any:
    """Text with what no eye can see spelt out; the template's own markup as it is."""
    if hasattr(value, "__html__"):
        return value
    return UNSEEN.sub(lambda unseen: unseen[0].encode("unicode_escape").decode(), str(value))


@cache
def _macro(name: str) -> Callable[..., str]:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
        finalize=_visible,
    )
    environment.globals |= {"words": WORDS, "found": _found, "tally": _tally}
    macro = getattr(environment.get_template("notebook.html.jinja").module, name)
    return lambda *arguments: str(macro(*arguments))
