"""Rules on real failures: the scores of each set of rules.

Scores are accuracy, recall and precision of each class, and macro-averaged F1. Failures of one problem are not
independent: intervals and tests take problems as clusters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments._tools.failure_evidence import EVIDENCE, OURS, RULES, Classified, column
from experiments._tools.failure_labels import HELD_OUT, PARTS, Label
from experiments._tools.output import percentile_estimate
from reflexion_lab.analysis.stats import bootstrap
from reflexion_lab.analysis.stats.estimators import Paired, paired
from reflexion_lab.analysis.stats.intervals import Estimate, Rate, resamples
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

SHOWN = "source lines"
"""The evidence of the human labels, beside the program. Without the type it is the fair text to compare rules on."""


class Case(Record, frozen=True, kw_only=True):
    """One failure, classified by each set of rules."""

    problem: str
    kind: str
    """The exception's type, or how the program ended."""
    truth: str
    guesses: dict[str, str]
    """Class by the name of the rules."""


class ClassScore(Record, frozen=True, kw_only=True):
    """Score of one class."""

    name: str
    recall: Rate
    precision: Rate
    f1: float
    """Harmonic mean of recall and precision, in [0, 1]; 0.0 without a correct guess."""


class Score(Record, frozen=True, kw_only=True):
    """Scores of one set of rules."""

    rules: str
    accuracy: Rate
    macro_f1: Estimate
    """Mean F1 of the true classes; bootstrap over problems."""
    classes: tuple[ClassScore, ...]
    """The true classes, the most common first."""


class Comparison(Record, frozen=True, kw_only=True):
    """Scores of all rules on the same cases and evidence."""

    against: str
    """Source of the truth: `executed` (the type that was raised), or `labels` with their part."""
    evidence: str
    typed: bool
    """Whether the text names the exception's type."""
    cases: tuple[Case, ...]
    scores: tuple[Score, ...]
    """In the order of `RULES`."""
    seed: int = 0

    @property
    def is_shown(self) -> bool:
        """Whether it scores held-out labels on the evidence of the label."""
        return self.against == "labels, held out" and self.evidence == SHOWN

    def score(self, rules: str) -> Score:
        return self.scores[RULES.index(rules)]

    def gained(self, over: str) -> tuple[Paired, Estimate]:
        """The lab's rules minus others: accuracy with McNemar's test, and macro-averaged F1."""
        return compared(self.cases, over, OURS), macro_f1(self.cases, OURS, minus=over, seed=self.seed)


def compare(failures: Sequence[Classified], labels: Mapping[tuple[str, str], Label], seed: int = 0) -> list[Comparison]:
    """Comparisons against what was raised, with and without its type; then against the labels by part, without it.

    Raises ConfigError: no failure failed when it was executed, or no label is about one of them.
    """
    failed = [failure for failure in failures if failure.raised]
    if not failed:
        raise ConfigError(f"{len(failures)} failing attempts: every one of them passes here", expected="one that fails")
    comparisons = [
        _comparison("executed", evidence, typed, [(failure, failure.truth) for failure in failed], seed)
        for typed in (True, False)
        for evidence in EVIDENCE
    ]
    labelled = [(failure, labels[failure.id]) for failure in failed if failure.id in labels]
    if labels and not labelled:
        raise ConfigError("labels", f"{len(labels)}, none of them about a failure of these files", "one that is")
    parts = {part: (part,) for part in PARTS} | {"held out": HELD_OUT}
    for name, members in parts.items():
        if truths := [(failure, label.label) for failure, label in labelled if label.part in members]:
            comparisons += [_comparison(f"labels, {name}", evidence, False, truths, seed) for evidence in EVIDENCE]
    return comparisons


def _comparison(
    against: str, evidence: str, typed: bool, truths: Sequence[tuple[Classified, str]], seed: int
) -> Comparison:
    cases = tuple(
        Case(
            problem=failure.problem,
            kind=failure.raised,
            truth=truth,
            guesses={rules: failure.guesses[column(evidence, typed, rules)] for rules in RULES},
        )
        for failure, truth in truths
    )
    scores = tuple(score(cases, rules, seed) for rules in RULES)
    return Comparison(against=against, evidence=evidence, typed=typed, cases=cases, scores=scores, seed=seed)


def score(cases: Sequence[Case], rules: str, seed: int = 0) -> Score:
    """Raises ConfigError: there is no case."""
    names = [name for name, _ in Counter(case.truth for case in cases).most_common()]
    return Score(
        rules=rules,
        accuracy=recall(cases, rules),
        macro_f1=macro_f1(cases, rules, seed=seed),
        classes=tuple(_class_score(cases, rules, name) for name in names),
    )


def recall(cases: Sequence[Case], rules: str) -> Rate:
    """Share of `cases` with the right class, with problems as clusters."""
    return bootstrap.rate((case.problem, case.guesses[rules] == case.truth) for case in cases)


def _class_score(cases: Sequence[Case], rules: str, name: str) -> ClassScore:
    true = [case for case in cases if case.truth == name]
    called = [case for case in cases if case.guesses[rules] == name]
    recalled, precision = recall(true, rules), recall(called, rules)
    f1 = 2 * recalled.k / (len(true) + len(called)) if true or called else 0.0
    return ClassScore(name=name, recall=recalled, precision=precision, f1=f1)


def macro_f1(cases: Sequence[Case], rules: str, minus: str = "", seed: int = 0) -> Estimate:
    """Unweighted mean of the classes' F1; with `minus`, the paired difference to the F1 of those rules.

    F1 = 2 TP / (truths + guesses) (van Rijsbergen 1979, ch. 7). Bootstrap over problems; a class missing in a resample
    is left out of its mean.

    Raises ConfigError: there is no case.
    """
    import numpy as np

    if not cases:
        raise ConfigError("cases", "none", "at least one")
    problems = sorted({case.problem for case in cases})
    weights = np.vstack([np.ones(len(problems)), resamples(len(problems), f"{seed}:problems")])
    means = _macro_f1_of(cases, rules, problems, weights)
    if minus:
        means = means - _macro_f1_of(cases, minus, problems, weights)
    return percentile_estimate(float(means[0]), means[1:])


def _macro_f1_of(
    cases: Sequence[Case], rules: str, problems: Sequence[str], weights: NDArray[float64]
) -> NDArray[float64]:
    """Macro-averaged F1 for each row of `weights`, the number of times that each problem counts."""
    import numpy as np

    classes = sorted({case.truth for case in cases})
    place, column = ({name: n for n, name in enumerate(names)} for names in (problems, classes))
    right, true, called = (np.zeros((len(problems), len(classes))) for _ in range(3))
    for case in cases:
        row, guess = place[case.problem], case.guesses[rules]
        true[row, column[case.truth]] += 1
        if guess in column:
            called[row, column[guess]] += 1
        if guess == case.truth:
            right[row, column[guess]] += 1
    occurs = weights @ true > 0
    f1 = 2 * (weights @ right) / np.maximum(weights @ (true + called), 1)
    means: NDArray[float64] = np.sum(f1 * occurs, axis=1) / np.maximum(np.sum(occurs, axis=1), 1)
    return means


def compared(cases: Sequence[Case], first: str, second: str) -> Paired:
    """The second rules against the first: difference of their accuracies, and the exact test, over problems."""
    verdicts = [{n: case.guesses[rules] == case.truth for n, case in enumerate(cases)} for rules in (first, second)]
    before, after = verdicts
    return paired(before, after, {n: case.problem for n, case in enumerate(cases)})
