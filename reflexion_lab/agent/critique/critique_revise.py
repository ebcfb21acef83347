"""Draft, critique, revise, until the drafts converge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from reflexion_lab.agent.critique.convergence import Convergence, best
from reflexion_lab.errors import ConfigError, CritiqueError, ModelError, Unanswered
from reflexion_lab.limits import Share, validated
from reflexion_lab.protocols import Actor, Critic, Reviser
from reflexion_lab.records import WITHHELD, Recollection, Step, Task, Trajectory, Usage


class CritiqueRevise:
    """`generator` makes the first draft, and it alone reads memory; then `critic` and `reviser` take turns until a rule
    of `Convergence` is met or `max_iterations` drafts were judged. The best draft is handed in.

    `ended` names the rule, or is `max_iterations`, or `error`: critic or reviser failed, the exception's words stand in
    the last step, and the best draft so far is handed in. `steps` holds each draft with the critique of that very
    draft, and with the call that made it.

    Args:
        max_iterations: drafts that are judged, 1 to 10.
        convergence_threshold, severity_threshold: see `Convergence`.
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

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        """Raises what the generator raises, and HarnessError."""
        first = self.generator.act(task, recollection)
        made, drafts, ended, spent = [first], [drafted(first)], "", Usage()
        while not ended:
            try:
                critique = self.critic.critique(task, made[-1].solution)
                drafts[-1] = replace(drafts[-1], critique=critique)
                spent += critique.usage
                ended = self._ended(task, drafts)
                if not ended:
                    made.append(self.reviser.revise(task, made[-1].solution, critique))
                    drafts.append(drafted(made[-1]))
            except CritiqueError as error:
                ended, spent = "error", spent + error.usage
                drafts[-1] = replace(drafts[-1], error=str(error), observation=error.reply)
            except Unanswered:
                raise
            except ModelError as error:
                ended = "error"
                drafts[-1] = replace(drafts[-1], error=str(error))
        chosen = made[best(drafts)]
        return replace(
            first,
            solution=chosen.solution,
            extraction=chosen.extraction,
            strategy="critique_revise",
            usage=sum((one.usage for one in made), Usage()),
            others=costs([*(one.others for one in made), {"critic": spent}]),
            cached=first.cached and all(one.cached or not one.usage.calls for one in made),
            steps=(*first.steps, *drafts),
            ended=ended,
            status="stuck" if ended == "error" else first.status,
        )

    def _ended(self, task: Task, drafts: Sequence[Step]) -> str:
        """Why no revision is asked for; "" to go on."""
        reason = self.convergence.reached(drafts, given=task.prompt.rstrip())
        return reason or ("max_iterations" if len(drafts) == self.max_iterations else "")


def drafted(made: Trajectory) -> Step:
    """The step of one draft, with the call that made it. An actor of several turns has its calls in their steps."""
    withheld = f"the reply ended in {made.finish_reason}" if made.finish_reason in WITHHELD else ""
    draft = Step(thought=made.rationale, program=made.solution, error=withheld)
    return draft if made.steps else replace(draft, messages=made.messages, reply=made.reply, usage=made.usage)


def costs(parts: Sequence[dict[str, Usage]]) -> dict[str, Usage]:
    """The sum by role; roles that asked nobody are left out."""
    total: defaultdict[str, Usage] = defaultdict(Usage)
    for part in parts:
        for role, usage in part.items():
            total[role] += usage
    return {role: usage for role, usage in total.items() if usage != Usage()}
