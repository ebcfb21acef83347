"""Positive controls for reflections: true words about the difference to a correct program; a share of wrong words."""

from __future__ import annotations

import random
from collections.abc import Sequence

from msgspec.structs import replace

from experiments.oracle_words.constructs import Difference
from experiments.oracle_words.differences import differences, untrue
from reflexion_lab.agent.reflectors.evidence import classify_evaluation, describe, reflection_on
from reflexion_lab.agent.reflectors.placebo import Unaware
from reflexion_lab.agent.reflectors.quoted import solved
from reflexion_lab.limits import Share, validated
from reflexion_lab.protocols import Reflector
from reflexion_lab.records import Attempt, Episode, Reflection, Task

CORRUPTED = "corrupted"
"""Flag of a reflection whose words were made wrong."""
EQUAL = Difference("none", "I find no difference from a correct program but for names.", "Keep the program as it is.")
ACTIONS = 2
"""Maximum number of further differences, one action each."""


class Oracle:
    """Says what differs between the program and the canonical solution, without quoting the solution. No model call.

    By rules on the syntax trees (`reflectors.differences`): of the solution the words contain single operators, names,
    keywords and short constants, never a line or an expression. The most important difference is the cause and the
    change, up to `ACTIONS` others are actions; `what_went_wrong` is the failing feedback check with its values. An
    upper bound of true diagnoses: no figure of such a run is a pass@1, and no other run may read its reflections.

    Parameters
    ----------
    tasks
        Tasks with their canonical solutions, which the loop's own copies lack.

    Raises
    ------
    ConfigError
        A task has no canonical solution.
    """

    reads_solutions = True

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = solved("oracle", tasks)

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        known = self._tasks[task.task_id]
        first, *others = true_differences(attempt.trajectory.solution, known)
        evidence = describe(attempt, classify_evaluation(attempt.evaluation)[1])
        return reflection_on(
            attempt,
            "control:oracle",
            root_cause=first.cause,
            what_went_wrong=f"This check failed: {evidence}",
            what_to_change=first.change,
            action_items=tuple(difference.change for difference in others[:ACTIONS]),
            confidence=1.0,
        )


class Corrupted:
    """Replaces the words of `first` by wrong ones in a known share of reflections: dose and response. No model call.

    A draw per task and attempt decides; the draws are the same for every share, so that what is wrong at a smaller
    share is wrong at a larger one. Wrong words name differences that do not hold between the program and the canonical
    solution (`differences.untrue`), if possible of the kind of the true ones and nearest to them in length. They
    replace cause, change and actions, one for one; `what_went_wrong`, the evidence, stays; lessons, insight and code
    go. A reflection with wrong words has the flag `corrupted`. An upper bound like `Oracle`, whose knowledge it needs.

    Parameters
    ----------
    first : Reflector
    tasks : sequence of Task
        Tasks with their canonical solutions.
    share : float
        Expected share of reflections with wrong words, in [0, 1]. Default 0.5.
    seed : int
        Seed of the draws. Default 0.

    Raises
    ------
    ConfigError
        A task has no canonical solution, or `share` is out of range.
    """

    reads_solutions = True

    @validated
    def __init__(self, first: Reflector, tasks: Sequence[Task], share: Share = 0.5, seed: int = 0) -> None:
        self.first = Unaware(first)
        self.share = share
        self.seed = seed
        self._tasks = solved(CORRUPTED, tasks)
        self._solutions = [task.canonical_program for task in tasks]

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        """Raises what `first` raises."""
        reflection = self.first.reflect(task, attempt, episodes)
        if reflection is None:
            return None
        reflection = replace(reflection, source=f"control:{CORRUPTED}")
        rng = random.Random(f"{self.seed}:{task.task_id}:{attempt.number}")
        if rng.random() >= self.share:
            return reflection
        known, program = self._tasks[attempt.task_id], attempt.trajectory.solution
        kinds = {difference.change: difference.kind for difference in true_differences(program, known)}
        left = untrue(program, self._solutions, known.canonical_program, known.entry_point, rng)
        changes = (reflection.what_to_change, *reflection.action_items)
        chosen: list[Difference] = []
        for change in changes:
            kind = kinds.get(change, "")
            others = [difference for difference in left if difference not in chosen]
            alike = [difference for difference in others if difference.kind == kind] or others
            if alike:  # no construct is left if the benchmark has a single, tiny task
                chosen.append(min(alike, key=lambda difference: abs(len(difference.change) - len(change))))
        first, *further = chosen or [EQUAL]
        return replace(
            reflection,
            root_cause=first.cause,
            what_to_change=first.change,
            action_items=tuple(difference.change for difference in further),
            key_insight="",
            lessons=(),
            quoted_code="",
            flags=(*reflection.flags, CORRUPTED),
        )


def true_differences(program: str, task: Task) -> list[Difference]:
    """Differences of `program` from the canonical solution of `task`; at least one."""
    return differences(program, task.canonical_program, task.entry_point) or [EQUAL]
