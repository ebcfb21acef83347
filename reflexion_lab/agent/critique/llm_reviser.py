"""A model revises the draft."""

from __future__ import annotations

from msgspec.structs import replace

from reflexion_lab.protocols import Model
from reflexion_lab.records import Critique, Recollection, Sampling, Task, Trajectory
from reflexion_lab.text.prompts.asking import Asking, Style, room
from reflexion_lab.text.prompts.render import Prompts, longest
from reflexion_lab.text.shorten import estimated

SHOWN = (5, 3, 1)
"""Issues, and suggestions, in the prompt: the first number that leaves room for the whole draft, else the last."""


class LLMReviser:
    """Asks `model` for the whole corrected program; a reply without one keeps the draft.

    `style`: `chat`, or `continuation` for small and base models, as of `prompts.asking.Asking`. Where the model's
    context is too short, few-shot examples are left out first, then later issues, then the middle of the draft.
    """

    def __init__(self, model: Model, sampling: Sampling, prompts: Prompts | None = None, style: Style = "chat") -> None:
        self.ask = Asking(model, sampling, prompts, style)

    def revise(self, task: Task, program: str, critique: Critique) -> Trajectory:
        # A program that continues the prompt begins with it; reading it twice would fill a small model's context.
        draft = program.removeprefix(task.prompt.rstrip())
        options = [{"issues": critique.issues[:n], "suggestions": critique.suggestions[:n]} for n in SHOWN]
        critique_texts = next((texts for texts in options if self._fits(task, draft, texts)), options[-1])
        excerpt = longest(draft, lambda text: self._fits(task, text, critique_texts))
        trajectory = self.ask("revise", task, Recollection(), program=excerpt, **critique_texts).trajectory("revise")
        return trajectory if trajectory.solution.strip() else replace(trajectory, solution=program, extraction="kept")

    def _fits(self, task: Task, draft: str, critique_texts: dict[str, tuple[str, ...]]) -> bool:
        limit = room(self.ask.model, self.ask.sampling)
        name = "revise" if self.ask.style == "chat" else "continue_revise"
        text = self.ask.prompts.render(name, examples=(), prompt=task.prompt, program=draft, **critique_texts)
        return limit is None or estimated(text) <= limit
