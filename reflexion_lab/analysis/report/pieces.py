"""Verdicts in words, and the templates of HTML.

Texts of models and programs are untrusted: the templates escape every value, and control, direction and zero-width
characters are spelt out. Every colour has a word and a symbol beside it, so that a view reads without its styles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from reflexion_lab.io import terminal_text
from reflexion_lab.records import OUTCOMES, Attempt, Check, Evaluation
from reflexion_lab.tasks.evaluators.unit_tests import describe

OUTCOME_WORDS = (
    "passed, failed, raised an error, timed out, out of memory, exited early, no tests, no program, harness error, "
    "refused, cut by a filter, prompt too long, prompt refused, wrong model"
)
WORDS = dict(zip(OUTCOMES, OUTCOME_WORDS.split(", "), strict=True))
LONGEST = 40_000
"""Maximum characters of a text; a log may hold a line of a megabyte."""
MOST_MEMORY_ITEMS = 6
"""Number of memory items that are unfolded."""
MOST_OPERATIONS = 30
"""Number of operations that a task's record shows of a call of the curator."""
MOST_CALLS = 10
"""Number of calls of the curator that a task's record shows."""


def check_details(check: Check) -> list[tuple[str, str]]:
    """Labels and texts of a failing check."""
    if check.kind != "test" and check.outcome == "fail":
        return [(f"{check.kind}, line {check.line}", f"{check.message} [{check.error_type}]")]
    where = f" (line {check.line} of the program)" if check.line else ""
    pair = WORDS.get(check.outcome, check.outcome), describe(check, "").removeprefix(f"{check.outcome}: ") + where
    return [side for side in (("expected", check.expected), ("got", check.actual)) if side[1]] or [pair]


def tally(evaluation: Evaluation) -> tuple[int, int]:
    """Number of passed tests and of all tests; findings of tools are no tests."""
    tests = [check.outcome for check in evaluation.checks if check.kind == "test"]
    return tests.count("pass"), len(tests)


def counted(names: Iterable[str]) -> str:
    """`2 episodes, 1 wisdom`."""
    counts = Counter(names)
    return ", ".join(f"{count} {name}{'s' * (count > 1 and name != 'wisdom')}" for name, count in counts.items())


def outcome_words(attempt: Attempt) -> str:
    outcome, (right, total) = attempt.evaluation.outcome, tally(attempt.evaluation)
    return WORDS.get(outcome, outcome) + (f", {right} of {total} right" if total else "")


def visible(text: str) -> str:
    """`text` with invisible characters spelt out, cut to `LONGEST` characters with the number of others."""
    visible = terminal_text.visible(text[:LONGEST], kept="\n\t")
    more = len(text) - LONGEST
    return f"{visible}… ({more:,} more characters in the run folder)" if more > 0 else visible


def task_link(task_id: str) -> str:
    """Link to the task in the page of a run."""
    return f"#task={quote(task_id, safe='/', errors='backslashreplace')}"


def _finalized(value: Any) -> Any:
    """Markup as it is; invisible characters of other values spelt out."""
    return value if hasattr(value, "__html__") else visible(str(value))


def escaping(folder: Path, **options: Any) -> Any:
    """A Jinja environment of the templates in `folder` that escapes every value and raises on a missing one."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(folder)
    rules: dict[str, Any] = dict.fromkeys(("trim_blocks", "lstrip_blocks", "autoescape"), True)
    return Environment(loader=loader, undefined=StrictUndefined, **rules, **options)


@cache
def _environment() -> Any:
    environment = escaping(Path(__file__).parent, finalize=_finalized)
    environment.globals |= {"words": WORDS, "check_details": check_details, "tally": tally}
    environment.globals |= {"MOST_MEMORY_ITEMS": MOST_MEMORY_ITEMS}
    environment.globals |= {"MOST_OPERATIONS": MOST_OPERATIONS, "MOST_CALLS": MOST_CALLS}
    environment.filters["counted"] = counted
    return environment


@cache
def macro(room: str, name: str) -> Callable[..., str]:
    """The macro `name` of `<room>.html.jinja`, which returns HTML."""
    template_macro = getattr(_environment().get_template(f"{room}.html.jinja").module, name)
    return lambda *arguments: str(template_macro(*arguments))


def rendered(room: str, **values: Any) -> str:
    """HTML from `<room>.html.jinja`."""
    return str(_environment().get_template(f"{room}.html.jinja").render(**values))


def markup(html: str) -> Any:
    """HTML that a template does not escape; only for output of templates and files of this folder."""
    from markupsafe import Markup

    return Markup(html)
