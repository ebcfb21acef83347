"""Several candidates per attempt, one of which is handed in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from reflexion_lab.agent.critique.critique_revise import costs, drafted
from reflexion_lab.limits import Positive, validated
from reflexion_lab.protocols import Actor, Evaluator
from reflexion_lab.records import WITHHELD, Evaluation, Recollection, Step, Task, Trajectory, Usage

Rule = Literal["first", "best", "vote"]


class Candidates:
    """Lets `actor` make `n` candidates from the same prompt and judges them by the tests that the task shows.

    `first`: the first that passes, and then no more are made; else the best. `best`: that of the highest
    `Evaluation.rank`. `vote`: the first of the largest group that behaves alike, which needs no check to be right (Li
    et al., arXiv 2203.07814, section 4.6, cluster by outputs; Chen et al., arXiv 2207.10397, by the tests passed).
    Ties go to the earlier. Where the task shows no test the first candidate is the only one.

    `ended`: `passed`, `max_candidates` or `no_tests`. Candidates differ only if `actor` samples above temperature 0.
    """

    @validated
    def __init__(self, actor: Actor, evaluator: Evaluator, n: Positive = 3, rule: Rule = "best") -> None:
        self.actor = actor
        self.evaluator = evaluator
        self.n = n
        self.rule = rule

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        """Raises what the actor raises, and HarnessError."""
        made: list[Trajectory] = []
        verdicts: list[Evaluation] = []
        ended = ""
        while not ended:
            made.append(self.actor.act(task, recollection))
            verdicts.append(self.evaluator.evaluate(task, made[-1]))
            if not task.visible_tests:
                ended = "no_tests"
            elif self.rule == "first" and verdicts[-1].passed:
                ended = "passed"
            elif len(made) == self.n:
                ended = "max_candidates"
        chosen = self._chosen(verdicts)
        # The attempt's own evaluation counts the seconds of the one that is handed in.
        verdicts[chosen] = replace(verdicts[chosen], seconds=0.0)
        steps = [step for one, verdict in zip(made, verdicts, strict=True) for step in _steps(one, verdict)]
        return replace(
            made[chosen],
            strategy="candidates",
            usage=sum((one.usage for one in made), Usage()),
            others=costs([one.others for one in made]),
            cached=all(one.cached for one in made),
            steps=tuple(steps),
            ended=ended,
        )

    def _chosen(self, verdicts: Sequence[Evaluation]) -> int:
        if self.rule == "vote":
            return voted(verdicts)
        if self.rule == "first" and verdicts[-1].passed:
            return len(verdicts) - 1
        return max(range(len(verdicts)), key=lambda number: verdicts[number].rank)


def voted(verdicts: Sequence[Evaluation]) -> int:
    """The place of the first in the largest group that behaves alike. Replies without a program have no vote, unless
    there are no others.
    """
    groups: defaultdict[object, list[int]] = defaultdict(list)
    for number, verdict in enumerate(verdicts):
        groups[behaviour(verdict)].append(number)
    empty = ("extraction_failed", *WITHHELD)
    return max(groups.values(), key=lambda group: (verdicts[group[0]].outcome not in empty, len(group)))[0]


def behaviour(verdict: Evaluation) -> object:
    """What a program did on each test: the outcome, the value that it gave where that was wrong, the error's type."""
    tests = (check for check in verdict.checks if check.kind == "test")
    return tuple((check.outcome, check.actual, check.error_type) for check in tests)


def _steps(made: Trajectory, verdict: Evaluation) -> list[Step]:
    step = replace(drafted(made), observation=verdict.feedback or verdict.outcome, seconds=verdict.seconds)
    return [*made.steps, step]
