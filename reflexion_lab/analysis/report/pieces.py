"""What views are made of: verdicts in words, and the way into HTML.

What models and programs wrote is hostile HTML: the templates escape every value, and control, direction and zero-width
characters are spelt out. A view reads without its styles too: every colour stands beside a word and a symbol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from reflexion_lab.io import terminal_text as shown
from reflexion_lab.records import OUTCOMES, UNKNOWN, Attempt, Check, Evaluation

OUTCOME_WORDS = (
    "passed, failed, raised an error, timed out, out of memory, exited early, no tests, no program, harness error, "
    "refused, cut by a filter, prompt too long, wrong model"
)
WORDS = dict(zip(OUTCOMES, OUTCOME_WORDS.split(", "), strict=True))
LONGEST = 40_000
"""Characters of a text that are shown; a log may hold a line of a megabyte."""
MOST_MEMORY_ITEMS = 6
"""So many of what memory gave are unfolded."""


def check_details(check: Check) -> list[tuple[str, str]]:
    """What a failing check says, label by label."""
    from reflexion_lab.tasks.evaluators.unit_tests import describe

    if check.kind != "test" and check.outcome == "fail":
        return [(f"{check.kind}, line {check.line}", f"{check.message} [{check.error_type}]")]
    pair = WORDS.get(check.outcome, check.outcome), describe(check).removeprefix(f"{check.outcome}: ")
    return [side for side in (("expected", check.expected), ("got", check.actual)) if side[1]] or [pair]


def tally(evaluation: Evaluation) -> tuple[int, int]:
    """Tests that passed, and all tests; what tools find is no test."""
    tests = [check.outcome for check in evaluation.checks if check.kind == "test"]
    return tests.count("pass"), len(tests)


def counted(names: Iterable[str]) -> str:
    """`2 episodes, 1 wisdom`."""
    counts = Counter(names)
    return ", ".join(f"{count} {name}{'s' * (count > 1 and name != 'wisdom')}" for name, count in counts.items())


def verdict(attempt: Attempt) -> str:
    outcome, (right, total) = attempt.evaluation.outcome, tally(attempt.evaluation)
    return WORDS.get(outcome, outcome) + (f", {right} of {total} right" if total else "")


def visible(text: str) -> str:
    """With what no eye can see spelt out; of a longer text the first `LONGEST` characters, and how many it has more."""
    seen = shown.visible(text[:LONGEST], kept="\n\t")
    more = len(text) - LONGEST
    return f"{seen}… ({more:,} more characters stand in the run folder)" if more > 0 else seen


def _finalized(value: Any) -> Any:
    """A template's own markup as it is, everything else visible."""
    return value if hasattr(value, "__html__") else visible(str(value))


def escaping(folder: Path, **options: Any) -> Any:
    """The templates of HTML in `folder`: every value is escaped on its way in, and one that is missing is an error.

    Parameters
    ----------
    options : Any
        Of Jinja's environment, which is returned.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(folder)
    rules: dict[str, Any] = dict.fromkeys(("trim_blocks", "lstrip_blocks", "autoescape"), True)
    return Environment(loader=loader, undefined=StrictUndefined, **rules, **options)


@cache
def _environment() -> Any:
    environment = escaping(Path(__file__).parent, finalize=_finalized)
    environment.globals |= {"words": WORDS, "check_details": check_details, "tally": tally}
    environment.globals |= {"UNKNOWN": UNKNOWN, "MOST_MEMORY_ITEMS": MOST_MEMORY_ITEMS}
    environment.filters["counted"] = counted
    return environment


@cache
def macro(room: str, name: str) -> Callable[..., str]:
    """The macro `name` of `<room>.html.jinja`, which gives HTML."""
    template_macro = getattr(_environment().get_template(f"{room}.html.jinja").module, name)
    return lambda *arguments: str(template_macro(*arguments))


def rendered(room: str, **values: Any) -> str:
    """`<room>.html.jinja` as a whole."""
    return str(_environment().get_template(f"{room}.html.jinja").render(**values))


def markup(html: str) -> Any:
    """HTML that a template takes as it is: only what templates of ours, or files beside them, have made."""
    from markupsafe import Markup

    return Markup(html)
