"""Model calls of actors: a chat message, or a file that the model continues."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec.structs import replace

from reflexion_lab.limits import validated
from reflexion_lab.protocols import Model
from reflexion_lab.records import WITHHELD, Completion, Message, Recollection, Sampling, Task, Trajectory
from reflexion_lab.text.prompts.render import Prompts
from reflexion_lab.text.replies.extract import Extraction, Reader, extract
from reflexion_lab.text.replies.syntax import Parser
from reflexion_lab.text.shorten import estimated

Style = Literal["chat", "continuation"]
ENVELOPE = 64
"""Tokens that a server may add: roles, a system message of its own."""


def room(model: Model, sampling: Sampling) -> int | None:
    """Largest number of prompt tokens that leaves room for the reply; None if the model's context is unknown."""
    return max(model.context - sampling.max_tokens - ENVELOPE, 0) if model.context else None


def fits(text: str, model: Model, sampling: Sampling) -> bool:
    """Whether the prompt `text` leaves room for the reply, by the estimate of its tokens."""
    limit = room(model, sampling)
    return limit is None or estimated(text) <= limit


def without_prompt(program: str, task: Task) -> str:
    """`program` without the task's prompt, with which continuations begin: a prompt need not contain it twice."""
    return program.removeprefix(task.prompt.rstrip())


class Answer(NamedTuple):
    """A call, its reply, and the program in the reply."""

    messages: tuple[Message, ...]
    left_out: tuple[str, ...]
    completion: Completion
    extraction: Extraction

    def trajectory(self, strategy: str, rationale: str = "") -> Trajectory:
        """The trajectory of an actor with a single call."""
        completion = self.completion
        return Trajectory(
            solution=self.extraction.program,
            strategy=strategy,
            messages=self.messages,
            left_out=self.left_out,
            reply=completion.text,
            rationale=rationale,
            extraction=self.extraction.rule,
            model=completion.model,
            finish_reason=completion.finish_reason,
            usage=completion.usage,
            cached=completion.cached,
        )


class Asking:
    """Renders templates with as much recalled memory as fits, and calls `model`.

    `style`: `chat` sends a user message and extracts the program from the reply. `continuation` uses the template
    `continue_NAME`, which ends in the task's prompt or in the beginning of the function's body; the program is that and
    the reply.
    """

    @validated
    def __init__(self, model: Model, sampling: Sampling, prompts: Prompts | None = None, style: Style = "chat") -> None:
        self.model = model
        self.sampling = sampling
        self.prompts = prompts or Prompts()
        self.style = style

    def __call__(self, name: str, task: Task, memory: Recollection, **variables: object) -> Answer:
        """Raises what the model raises.

        If the model rejects the prompt as too long, it is called once more with less memory: reduced in proportion to
        the model's token count, or to half if it gives none.
        """
        name = name if self.style == "chat" else f"continue_{name}"
        about = {"prompt": task.prompt, "task_id": task.task_id, **variables}
        space = room(self.model, self.sampling)
        fitted = self.prompts.fit(name, space if space is None else int(space / memory.token_ratio), memory, **about)
        messages, completion = self._put(fitted.text)
        if completion.finish_reason == "context_overflow":
            # The estimate was too low, or the server's context is smaller than the configured one.
            sent, counted, spent = estimated(fitted.text), completion.refused_tokens, completion.usage
            smaller = space * sent // counted if space and counted > space else sent // 2
            less = self.prompts.fit(name, smaller, memory, **about)
            if less.text != fitted.text:
                fitted, (messages, completion) = less, self._put(less.text)
                completion = replace(completion, usage=spent + completion.usage)
        reply, chats = completion.text, self.style == "chat"
        if completion.finish_reason in WITHHELD:
            return Answer(messages, fitted.left_out, completion, Extraction("", "none"))
        broke_off = completion.finish_reason == "length"
        extraction = extract(reply, task) if chats else continued(fitted.text, reply, task, broke_off)
        return Answer(messages, fitted.left_out, completion, extraction)

    def _put(self, text: str) -> tuple[tuple[Message, ...], Completion]:
        messages = (Message(role="user" if self.style == "chat" else "assistant", content=text),)
        return messages, self.model.complete(messages, sampling=self.sampling)


def continued(prompt: str, reply: str, task: Task, broke_off: bool = False) -> Extraction:
    """The prompt, the beginning of the body in `prompt`, and the reply; if truncated, cut back until it parses."""
    head = task.prompt.rstrip()
    _, match, beginning = prompt.rpartition(head.lstrip("\n")) if head else ("", "", "")
    program = f"{head}{beginning if match else ''}{reply.rstrip()}\n"
    if not reply.strip():
        return Extraction("", "none")
    if broke_off and (prefix := Reader(task, Parser()).cut_back(program)):
        return Extraction(f"{prefix}\n", "continuation+truncated")
    return Extraction(program, "continuation")
