"""A model mends the draft."""

from __future__ import annotations

from msgspec.structs import replace

from reflexion_lab.protocols import Model
from reflexion_lab.records import Critique, Recollection, Sampling, Task, Trajectory
from reflexion_lab.text.prompts.asking import Asking, Style, room
from reflexion_lab.text.prompts.excerpt import longest
from reflexion_lab.text.prompts.length import estimated
from reflexion_lab.text.prompts.render import Prompts

SHOWN = (5, 3, 1)
"""How many issues, and suggestions, the prompt shows: the first number that leaves room for the whole draft, or the
last one."""


class LLMReviser:
    """Asks `model` for the whole corrected program; a reply without one keeps the draft.

    `style`: `chat`, or `continuation` for small and base models, as of `prompts.asking.Asking`. Where the model's
    context has no room for the draft its middle is left out, after the few-shot examples and the later issues.
    """

    def __init__(self, model: Model, sampling: Sampling, prompts: Prompts | None = None, style: Style = "chat") -> None:
        self.ask = Asking(model, sampling, prompts, style)

    def revise(self, task: Task, program: str, critique: Critique) -> Trajectory:
        # A program that continues the prompt begins with it; reading it twice would fill a small model's context.
        draft = program.removeprefix(task.prompt.rstrip())
        words = [{"issues": critique.issues[:shown], "suggestions": critique.suggestions[:shown]} for shown in SHOWN]
        told = next((few for few in words if self._fits(task, draft, few)), words[-1])
        shown = longest(draft, lambda text: self._fits(task, text, told))
        answer = self.ask("revise", task, Recollection(), program=shown, **told)
        made = answer.trajectory("revise")
        return made if made.solution.strip() else replace(made, solution=program, extraction="kept")

    def _fits(self, task: Task, draft: str, told: dict[str, tuple[str, ...]]) -> bool:
        limit = room(self.ask.model, self.ask.sampling)
        name = "revise" if self.ask.style == "chat" else "continue_revise"
        text = self.ask.prompts.render(name, examples=(), prompt=task.prompt, program=draft, **told)
        return limit is None or estimated(text) <= limit
