"""Critique-revise loop: draft, critique and revise until the drafts converge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from reflexion_lab.agent.critique.convergence import Convergence, best
from reflexion_lab.agent.critique.merged_critic import critique_by
from reflexion_lab.errors import (
    CapReached,
    ConfigError,
    CritiqueError,
    HarnessError,
    LabError,
    ModelNotFound,
    StoreError,
    Unanswered,
)
from reflexion_lab.limits import Share, validated
from reflexion_lab.protocols import Actor, Critic, Reviser
from reflexion_lab.records import WITHHELD, Recollection, Step, Task, Trajectory, Usage


class CritiqueRevise:
    """Drafts, then critiques and revises until a rule of `Convergence` is met; submits the best draft.

    `Trajectory.ended` is the name of the rule, `max_iterations`, or `error` (critic or reviser failed: see the last
    step). `steps` contains each draft with its critique and model call. `generator`: writes the first draft, unless the
    task has initial code; the only part that reads episodes. `critic`: also receives the recalled mistakes if it
    `reads_mistakes`. `max_iterations`: largest number of critiques, 1 to 10. `convergence_threshold`,
    `severity_threshold`: those of `Convergence`.
    """

    revises = True

    @validated
    def __init__(
        self,
        generator: Actor,
        critic: Critic,
        reviser: Reviser,
        max_iterations: Annotated[int, Meta(ge=1, le=10)] = 3,
        convergence_threshold: Share = 0.1,
        severity_threshold: Share = 0.3,
    ) -> None:
        for name, part, method in (
            ("actor.generator", generator, "act"),
            ("critic", critic, "critique"),
            ("reviser", reviser, "revise"),
        ):
            if not callable(getattr(part, method, None)):
                raise ConfigError(name, type(part).__name__, f"a part with a method `{method}`")
        self.generator = generator
        self.critic = critic
        self.reviser = reviser
        self.max_iterations = max_iterations
        self.convergence = Convergence(convergence_threshold, severity_threshold)

    def _first(self, task: Task, recollection: Recollection) -> Trajectory:
        """The task's initial code in attempt 1, if there is any; else the generator's draft."""
        if recollection.attempt > 1 or not task.initial_code:
            return self.generator.act(task, recollection)
        read = recollection.mistakes if getattr(self.critic, "reads_mistakes", False) else ()
        rest = tuple(sorted(recollection.ids - {mistake.mistake_id for mistake in read}))
        return Trajectory(solution=task.initial_code, strategy="given", extraction="given", left_out=rest, cached=True)

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        """Raises what the generator raises, and HarnessError, ModelNotFound and StoreError of the other parts."""
        first = self._first(task, recollection)
        mistakes = recollection.without(first.left_out).mistakes  # so that all mistakes read are recorded as recalled
        trajectories, drafts, ended, spent = [first], [draft_step(first)], "", Usage()
        while not ended:
            program = trajectories[-1].solution
            try:
                critique = critique_by(self.critic, task, program, mistakes)
                drafts[-1] = replace(drafts[-1], critique=critique)
                spent += critique.usage
                reason = self.convergence.reached(drafts, prompt=task.prompt.rstrip())
                ended = reason or ("max_iterations" if len(drafts) == self.max_iterations else "")
                if not ended:
                    trajectories.append(self.reviser.revise(task, program, critique))
                    drafts.append(draft_step(trajectories[-1]))
            except CritiqueError as error:
                ended, spent = "error", spent + error.usage
                drafts[-1] = replace(drafts[-1], error=str(error), observation=error.reply)
            except (Unanswered, ModelNotFound, StoreError, CapReached, ConfigError, HarnessError):
                raise
            except Exception as error:
                ended = "error"
                message = str(error) if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
                drafts[-1] = replace(drafts[-1], error=message)
        submitted = trajectories[best(drafts)]
        return replace(
            first,
            solution=submitted.solution,
            extraction=submitted.extraction,
            strategy="critique_revise",
            usage=sum((trajectory.usage for trajectory in trajectories), Usage()),
            others=usage_by_role([*(trajectory.others for trajectory in trajectories), {"critic": spent}]),
            cached=first.cached and all(draft.cached or not draft.usage.calls for draft in trajectories),
            steps=(*first.steps, *drafts),
            ended=ended,
            status="stuck" if ended == "error" else first.status,
        )


def draft_step(trajectory: Trajectory) -> Step:
    """The step of a draft, with its model call unless the trajectory has steps of its own."""
    finish_reason = trajectory.finish_reason
    withheld = f"the reply ended in {finish_reason}" if finish_reason in WITHHELD else ""
    draft = Step(thought=trajectory.rationale, program=trajectory.solution, error=withheld)
    if trajectory.steps:
        return draft
    return replace(draft, messages=trajectory.messages, reply=trajectory.reply, usage=trajectory.usage)


def usage_by_role(parts: Sequence[dict[str, Usage]]) -> dict[str, Usage]:
    """Usage by role, without roles that made no call."""
    total: defaultdict[str, Usage] = defaultdict(Usage)
    for part in parts:
        for role, usage in part.items():
            total[role] += usage
    return {role: usage for role, usage in total.items() if usage != Usage()}
