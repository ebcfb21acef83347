"""Revisions by a model."""

from __future__ import annotations

from msgspec.structs import replace

from reflexion_lab.protocols import Model
from reflexion_lab.records import Critique, Recollection, Sampling, Task, Trajectory
from reflexion_lab.text.prompts.render import PromptedModel, Prompts, Style, fits, longest, without_prompt

SHOWN = (5, 3, 1)
"""Numbers of issues (and suggestions) in the prompt: the first that leaves room for the whole draft, else the last."""


class LLMReviser:
    """Asks `model` for the whole corrected program. A reply without a program keeps the draft.

    `style`: `chat`, or `continuation` for small and base models (`prompts.render.PromptedModel`). If the prompt exceeds
    the model's context, few-shot examples are dropped first, then later issues, then the middle of the draft.
    """

    def __init__(self, model: Model, sampling: Sampling, prompts: Prompts | None = None, style: Style = "chat") -> None:
        self.ask = PromptedModel(model, sampling, prompts, style)

    def revise(self, task: Task, program: str, critique: Critique) -> Trajectory:
        draft = without_prompt(program, task)
        options = [{"issues": critique.issues[:n], "suggestions": critique.suggestions[:n]} for n in SHOWN]
        critique_texts = next((texts for texts in options if self._fits(task, draft, texts)), options[-1])
        excerpt = longest(draft, lambda text: self._fits(task, text, critique_texts))
        trajectory = self.ask("revise", task, Recollection(), program=excerpt, **critique_texts).trajectory("revise")
        return trajectory if trajectory.solution.strip() else replace(trajectory, solution=program, extraction="kept")

    def _fits(self, task: Task, draft: str, critique_texts: dict[str, tuple[str, ...]]) -> bool:
        name = "revise" if self.ask.style == "chat" else "continue_revise"
        text = self.ask.prompts.render(
            self.ask.prompts.of_kind(name, task), examples=(), prompt=task.prompt, program=draft, **critique_texts
        )
        return fits(text, self.ask.model, self.ask.sampling)
