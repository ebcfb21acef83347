"""Single-shot actor: one call to a chat model."""

from __future__ import annotations

from reflexion_lab.protocols import Model
from reflexion_lab.records import Recollection, Sampling, Task, Trajectory
from reflexion_lab.text.prompts.render import PromptedModel, Prompts


class SingleShot:
    """Asks for the whole function or program; the prompt lists earlier failures under "Earlier attempts"."""

    kinds = ("function", "program", "answer")

    def __init__(self, model: Model, sampling: Sampling, prompts: Prompts | None = None) -> None:
        self.ask = PromptedModel(model, sampling, prompts, "chat")

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        return self.ask("solve", task, recollection).trajectory("single_shot")
