"""How often rules name the class that is true: accuracy, recall and precision of each class, macro-averaged F1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reflexion_lab.analysis.estimators import Paired, paired
from reflexion_lab.analysis.stats.intervals import LEVEL, Estimate, Rate, clustered, resamples
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Record

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray


class Case(Record, frozen=True, kw_only=True):
    """One failure that several rules have classified."""

    problem: str
    """Failures of one problem are not independent: intervals take problems as the unit."""
    kind: str
    """What it raised, or how it ended."""
    truth: str
    guesses: dict[str, str]
    """By the name of the rules."""


class ClassScore(Record, frozen=True, kw_only=True):
    """One class. Intervals: Wilson, at the number of independent cases that the problems are worth (`effective`)."""

    name: str
    recall: Rate
    """Of the cases of this class, those that were called so."""
    precision: Rate
    """Of the cases that were called so, those of this class."""
    f1: float
    """Harmonic mean of the two, in [0, 1]; 0.0 where nothing was right."""


class Score(Record, frozen=True, kw_only=True):
    """One set of rules on the same cases."""

    rules: str
    accuracy: Rate
    macro_f1: Estimate
    """Mean F1 of the classes that occur among the truths; bootstrap over problems."""
    classes: tuple[ClassScore, ...]
    """Those classes, the commonest first."""


def score(cases: Sequence[Case], rules: str, seed: int = 0) -> Score:
    """Raises ConfigError where there is no case."""
    names = [name for name, _ in Counter(case.truth for case in cases).most_common()]
    return Score(
        rules=rules,
        accuracy=share([case for case in cases if case.guesses[rules] == case.truth], cases),
        macro_f1=macro_f1(cases, rules, seed=seed),
        classes=tuple(_class(cases, rules, name) for name in names),
    )


def share(some: Sequence[Case], every: Sequence[Case]) -> Rate:
    """`some` among `every`; the interval is Wilson's, with the cases discounted for sharing problems.

    The share is exact; k and n are counts of cases. Kish's discount assumes that all cases of a problem end alike.
    """
    if not every:
        return Rate.of(0, 0)
    value = len(some) / len(every)
    low, high = clustered(value, list(Counter(case.problem for case in every).values()))
    return Rate(k=len(some), n=len(every), share=value, low=low, high=high)


def macro_f1(cases: Sequence[Case], rules: str, minus: str = "", seed: int = 0) -> Estimate:
    """Unweighted mean of the classes' F1; with `minus`, how much higher it is than with those rules, paired.

    F1 = 2 TP / (truths + guesses) (van Rijsbergen 1979, ch. 7). Percentile bootstrap over problems (Efron and
    Tibshirani 1993, ch. 13); a class that a resample lacks is left out of its mean.

    Raises
    ------
    ConfigError
        There is no case.
    """
    import numpy as np

    if not cases:
        raise ConfigError("cases", "none", "at least one")
    problems = sorted({case.problem for case in cases})
    often = np.vstack([np.ones(len(problems)), resamples(len(problems), f"{seed}:problems")])
    values = _means(cases, rules, problems, often)
    if minus:
        values = values - _means(cases, minus, problems, often)
    low, high = np.quantile(values[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value = float(values[0])
    return Estimate(value=value, low=min(float(low), value), high=max(float(high), value))


def compared(cases: Sequence[Case], first: str, second: str) -> Paired:
    """The second rules against the first, case by case: difference of their accuracies, and McNemar's exact test.

    Both take cases as independent: so they are where no two share a problem.
    """
    verdicts = [
        {str(n): case.guesses[rules] == case.truth for n, case in enumerate(cases)} for rules in (first, second)
    ]
    return paired(*verdicts)


def _class(cases: Sequence[Case], rules: str, name: str) -> ClassScore:
    true = [case for case in cases if case.truth == name]
    called = [case for case in cases if case.guesses[rules] == name]
    right = [case for case in true if case.guesses[rules] == name]
    f1 = 2 * len(right) / (len(true) + len(called)) if true or called else 0.0
    return ClassScore(name=name, recall=share(right, true), precision=share(right, called), f1=f1)


def _means(cases: Sequence[Case], rules: str, problems: Sequence[str], often: NDArray[float64]) -> NDArray[float64]:
    """Macro-averaged F1 for each row of `often`, which says how often each problem counts."""
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
    there = often @ true > 0
    f1 = 2 * (often @ right) / np.maximum(often @ (true + called), 1)
    means: NDArray[float64] = np.sum(f1 * there, axis=1) / np.maximum(np.sum(there, axis=1), 1)
    return means
