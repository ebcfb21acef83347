"""One call, one program: the actor for chat models."""

from __future__ import annotations

from reflexion_lab.extract import extract
from reflexion_lab.prompts.render import render
from reflexion_lab.protocols import Model
from reflexion_lab.records import Message, Recollection, Sampling, Task, Trajectory


class SingleShot:
    """Asks for the whole function; earlier failures stand under "Learning from previous failures"."""

    def __init__(self, model: Model, sampling: Sampling, prompt: str = "solve") -> None:
        self.model = model
        self.sampling = sampling
        self.prompt = prompt

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        prompt = render(self.prompt, prompt=task.prompt, task_id=task.task_id, memory=recollection)
        messages = (Message(role="user", content=prompt),)
        completion = self.model.complete(messages, sampling=self.sampling)
        program, rule = extract(completion.text, task)
        return Trajectory(
            solution=program,
            strategy="single_shot",
            messages=messages,
            reply=completion.text,
            extraction=rule,
            finish_reason=completion.finish_reason,
            usage=completion.usage,
            cached=completion.cached,
        )
