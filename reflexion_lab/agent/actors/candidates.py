"""Best-of-n actor: several candidates per attempt, one of which is submitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from reflexion_lab.agent.critique.critique_revise import draft_step, usage_by_role
from reflexion_lab.limits import Repeats, validated
from reflexion_lab.protocols import Actor, Evaluator
from reflexion_lab.records import WITHHELD, Evaluation, Recollection, Step, Task, Trajectory, Usage
from reflexion_lab.tasks.environments.replay import FAILED
from reflexion_lab.text.replies.answers import key

Rule = Literal["first", "best", "vote"]


class Candidates:
    """Draws up to `n` candidates from one prompt and judges them by the visible tests.

    `Trajectory.ended` is `passed`, `max_candidates` or `no_tests`. `actor`: candidates differ only at a temperature
    above 0. `n`: largest number of candidates, 1 or more; 1 is drawn if the task shows no test. `rule`: selection of
    the submitted candidate; ties go to the earlier. `first`: the first that passes, which ends drawing; else the best.
    `best`: highest `Evaluation.rank`. `vote`: the first of the largest group with equal behaviour on the tests, right
    or wrong (Li et al., arXiv 2203.07814, section 4.6, cluster by outputs; Chen et al., arXiv 2207.10397, by the tests
    passed); of answers to a question, the most frequent, without a test (Wang et al., arXiv 2203.11171).
    """

    @validated
    def __init__(self, actor: Actor, evaluator: Evaluator, n: Repeats = 3, rule: Rule = "best") -> None:
        self.actor = actor
        self.evaluator = evaluator
        self.n = n
        self.rule = rule

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        """Raises what the actor raises, and HarnessError."""
        candidates: list[Trajectory] = []
        verdicts: list[Evaluation] = []
        ended = ""
        votes = task.kind == "answer" and self.rule == "vote"
        while not ended:
            candidates.append(self.actor.act(task, recollection))
            verdicts.append(self.evaluator.evaluate(task, candidates[-1]))
            if not (task.visible_tests or votes):
                ended = "no_tests"
            elif self.rule == "first" and verdicts[-1].passed:
                ended = "passed"
            elif len(candidates) == self.n:
                ended = "max_candidates"
        if self.rule == "vote":
            answers = [each.solution for each in candidates if votes]
            choice = voted(verdicts, ["" if FAILED in answer else key(task, answer) for answer in answers])
        elif self.rule == "first" and ended == "passed":
            choice = len(verdicts) - 1
        else:
            ranks = [(FAILED not in each.solution, v.rank) for each, v in zip(candidates, verdicts, strict=True)]
            choice = ranks.index(max(ranks))
        # The evaluation of the attempt counts the seconds of the submitted candidate.
        verdicts[choice] = replace(verdicts[choice], seconds=0.0)
        steps: list[Step] = []
        for candidate, verdict in zip(candidates, verdicts, strict=True):
            observation = verdict.feedback or verdict.outcome
            draft = replace(draft_step(candidate), observation=observation, seconds=verdict.seconds)
            steps += [*candidate.steps, draft]
        return replace(
            candidates[choice],
            strategy="candidates",
            usage=sum((candidate.usage for candidate in candidates), Usage()),
            others=usage_by_role([candidate.others for candidate in candidates]),
            cached=all(candidate.cached for candidate in candidates),
            steps=tuple(steps),
            ended=ended,
        )


def voted(verdicts: Sequence[Evaluation], answers: Sequence[object] = ()) -> int:
    """Index of the first verdict of the largest group of equal behaviour, or of equal `answers`, of those with a
    program or an answer if any.
    """
    groups: defaultdict[object, list[int]] = defaultdict(list)
    for number, look in enumerate(answers or map(behaviour, verdicts)):
        groups[look].append(number)
    empty = ("extraction_failed", *WITHHELD)
    return max(
        groups.items(), key=lambda each: (each[0] != "" and verdicts[each[1][0]].outcome not in empty, len(each[1]))
    )[1][0]


def behaviour(verdict: Evaluation) -> object:
    """Key of equal behaviour: each test's outcome, with the wrong value or the type of the error."""
    tests = (check for check in verdict.checks if check.kind == "test")
    return tuple((check.outcome, check.actual, check.error_type) for check in tests)
