"""Findings in a log besides its verdicts: missing rows, hidden tests as feedback, missing programs, equal retries."""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from reflexion_lab.audit.samples import Sample
from reflexion_lab.records import Record
from reflexion_lab.tasks.benchmarks.visible import visible_tests

HUMAN_EVAL = frozenset(f"HumanEval/{number}" for number in range(164))
FIXED = 0.5
"""Share of identical retries from which a run counts as a control that cannot change."""
FEWEST_RETRIES = 10
"""Minimum number of retries for `FIXED`."""


class Retries(Record, frozen=True, kw_only=True):
    n: int
    """Retries whose attempt and the one before are recorded; in a log of trials, those that failed again."""
    identical: int
    """Retries that repeat the attempt before them word for word."""

    @property
    def is_fixed(self) -> bool:
        """Whether most retries repeat the attempt before: a control that cannot change."""
        return self.n >= FEWEST_RETRIES and self.identical >= FIXED * self.n

    def __str__(self) -> str:
        return f"{self.identical} of {self.n}"


class Leaks(Record, frozen=True, kw_only=True):
    """Findings that need no execution."""

    missing: tuple[str, ...] = ()
    """Tasks without a row, prefixed by the run if several. Expected: HumanEval's 164, or tasks of other runs."""
    repeated: tuple[str, ...] = ()
    """Tasks with more rows than others of the run."""
    shown: int = 0
    """Asserts that loops saw as feedback."""
    shown_hidden: int = 0
    """Feedback asserts that equal a hidden assert of the task."""
    shown_beyond_prompt: int = 0
    """Number of `shown_hidden` that are not an example in the prompt."""
    samples_beyond_prompt: int = 0
    """Samples with at least one assert of `shown_beyond_prompt`."""
    unstored: tuple[str, ...] = ()
    """Samples logged as solved without a stored program."""
    fixed: tuple[tuple[str, Retries], ...] = ()
    """Runs whose retries mostly repeat the program before word for word: controls that cannot change."""


def leaks(samples: Sequence[Sample], attempts: bool = False) -> Leaks:
    """Findings in samples. With `attempts`, several samples of a task in a run are attempts, not repetitions."""
    missing, repeated = _rows(samples)
    counts = [_shown(sample) for sample in samples]
    equal: dict[str, list[bool]] = defaultdict(list)
    """By run, of each retry whether it repeats the program before."""
    for sample in samples:
        equal[sample.run] += [before == after for before, after in pairwise(sample.attempts) if before.strip()]
    retries = {run: Retries(n=len(pairs), identical=sum(pairs)) for run, pairs in equal.items()}
    return Leaks(
        missing=missing,
        repeated=() if attempts else repeated,
        shown=sum(len(sample.feedback) for sample in samples),
        shown_hidden=sum(hidden for hidden, _ in counts),
        shown_beyond_prompt=sum(beyond for _, beyond in counts),
        samples_beyond_prompt=sum(beyond > 0 for _, beyond in counts),
        unstored=tuple(sample.id for sample in samples if sample.logged and not sample.program.strip()),
        fixed=tuple(pair for pair in retries.items() if pair[1].is_fixed),
    )


def _rows(samples: Sequence[Sample]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    runs: dict[str, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        runs[sample.run][sample.task_id] += 1
    known = {task_id for counts in runs.values() for task_id in counts}
    expected = HUMAN_EVAL if known <= HUMAN_EVAL else known
    missing, repeated = [], []
    for run, counts in runs.items():
        front = f"{run}/" if len(runs) > 1 else ""
        usual = min(counts.values())
        missing += [front + task_id for task_id in sorted(expected - counts.keys(), key=_number)]
        repeated += [f"{front}{task_id} ({count} rows)" for task_id, count in counts.items() if count > usual]
    return tuple(missing), tuple(repeated)


def _number(task_id: str) -> tuple[int, str]:
    digits = re.search(r"\d+", task_id)
    return int(digits[0]) if digits else 0, task_id


def _shown(sample: Sample) -> tuple[int, int]:
    """Counts for `shown_hidden` and `shown_beyond_prompt`."""
    hidden = [_bare(check, sample.entry_point) for check in sample.tests]
    asserts = [_bare(assertion, sample.entry_point) for assertion in sample.feedback]
    leaked = [text for text in asserts if any(check == text or check.startswith(f"{text},") for check in hidden)]
    if not leaked:
        return 0, 0
    examples = _examples(sample.prompt, sample.entry_point)
    return len(leaked), sum(text not in examples for text in leaked)


@functools.lru_cache(maxsize=4096)
def _examples(prompt: str, entry_point: str) -> frozenset[str]:
    try:
        return frozenset(_bare(test, entry_point) for test in visible_tests(prompt, entry_point))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


@functools.lru_cache(maxsize=65536)
def _bare(check: str, entry_point: str) -> str:
    """An assert normalised: no spaces, one kind of quotes, no trailing comment, the function's own name."""
    text = re.sub(r"\bcandidate\b", entry_point, check.partition(" # ")[0])
    return re.sub(r"\s+", "", text).replace("'", '"')
