"""Verdicts on answers, by checks or by their agreement. Checks are texts in JSON, which hold the right answer."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from reflexion_lab.errors import DataError
from reflexion_lab.limits import PositiveShare, validated
from reflexion_lab.records import Check, Evaluation, Execution, Task, Trajectory
from reflexion_lab.tasks.environments.replay import FAILED
from reflexion_lab.text.replies.answers import ANSWER_CHARS, equal, key, numeric
from reflexion_lab.text.shorten import line

NAME = "the answer"
"""Name of a check, which the loop may read: the check's text may not be."""


def check_of(rule: str, *accepted: str) -> str:
    """The check that an answer is one of `accepted` by a rule of `text.replies.answers`."""
    return json.dumps({"rule": rule, "answers": accepted}, ensure_ascii=False)


def decoded_check(text: str) -> dict[str, Any]:
    """The check in a text. Raises DataError: it has no rule that is known."""
    with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError):
        check: dict[str, Any] = json.loads(text)
        rights = check["entry"]["answer"] if check["rule"] == "scorer" else check["answers"]
        is_known = check["rule"] in ("exact", "literal", "numeric", "scorer")
        if is_known and rights and all(isinstance(each, str) for each in rights):
            return check
    raise DataError("field $.hidden_tests", repr(text[:60]), '{"rule": "exact", "answers": ["Oslo"]}, or rule numeric')


def answered(answer: str, checks: Sequence[str]) -> Execution:
    """The verdict of each check on `answer`. Raises HarnessError: the generator's package is missing."""
    wrong = f"the answer {line(answer, 60)!r} is wrong"  # names it: other wrong answers are other failures
    outcomes = [("pass", "") if _holds(decoded_check(check), answer) else ("fail", wrong) for check in checks]
    verdicts = tuple(Check(name=NAME, outcome=outcome, message=message) for outcome, message in outcomes)
    return Execution(checks=verdicts, output="", seconds=0.0, cpu_seconds=0.0)


def _holds(check: dict[str, Any], answer: str) -> bool:
    if len(answer) > ANSWER_CHARS:
        return False
    if check["rule"] == "scorer":
        from reflexion_lab.tasks.benchmarks.reasoning import score

        ours, right = numeric(answer), numeric(check["entry"]["answer"])
        if ours is not None and right is not None and (ours == right or ours * right < 0):
            return ours == right  # scorers differ on 1,000 and 5.0, and some drop a sign
        return score(check, answer) == 1.0
    return any(equal(check["rule"], answer, right) for right in check["answers"])


class SelfConsistency:
    """Passes if `agreement` or more of the attempt's answers equal the one submitted, as a vote counts them.

    The answers are those of `actor=candidates`, whose draws are the actor's own calls: nothing is drawn that is not
    counted, and no right answer is read. The reward is the share that agrees; a draw without an answer agrees with
    none. With fewer than two draws there is no verdict.
    """

    @validated
    def __init__(self, agreement: PositiveShare = 0.6) -> None:
        self.agreement = agreement

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        # a draft that took turns, as a play does, follows them without a call of its own
        ends = [step for step in trajectory.steps if not step.messages] or trajectory.steps
        drafts = [step.program for step in ends if trajectory.strategy != "play" and FAILED not in step.program]
        if len(drafts) < 2:
            return Evaluation(passed=False, outcome="no_tests", reward=0.0, verification_type="self_consistency")
        own, keys = key(task, trajectory.solution), [key(task, draft) for draft in drafts]
        share = keys.count(own) / len(keys) if own != "" else 0.0
        common = [
            f"{line(drafts[keys.index(each)], 60)!r} {n} times"
            for each, n in Counter(keys).most_common(3)
            if each != ""
        ]
        outcome = "pass" if share >= self.agreement else "fail" if own != "" else "extraction_failed"
        why = "" if outcome == "pass" else f"my {len(keys)} answers disagree: {', '.join(common) or 'there is none'}"
        return Evaluation(
            passed=outcome == "pass",
            outcome=outcome,
            reward=share,
            checks=(Check(name=NAME, outcome=outcome, message=why),),
            verification_type="self_consistency",
            feedback=f"{why[:1].upper()}{why[1:]}.".removeprefix("."),
            confidence=max(share, 1 - share),
        )
