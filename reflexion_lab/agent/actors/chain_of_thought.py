"""Chain-of-thought actor: one call for a rationale and then the program."""

from __future__ import annotations

import re
from itertools import takewhile

from reflexion_lab.protocols import Model
from reflexion_lab.records import WITHHELD, Recollection, Sampling, Task, Trajectory
from reflexion_lab.text.prompts.render import PromptedModel, Prompts, Style
from reflexion_lab.text.replies.extract import STATEMENT, THOUGHT, blocks, without_thoughts


class ChainOfThought:
    """Asks for a rationale, then the whole function (Wei et al., arXiv 2201.11903; zero-shot without examples).

    `style`: `chat`, or `continuation` for small and base models: the prompt ends in a comment in the function's body,
    and the model continues with comment lines and code.
    """

    kinds = ("function", "program", "answer")

    def __init__(self, model: Model, sampling: Sampling, prompts: Prompts | None = None, style: Style = "chat") -> None:
        self.ask = PromptedModel(model, sampling, prompts, style)

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        answer = self.ask("think", task, recollection, margin=margin(task))
        words = words_before_code if self.ask.style == "chat" else leading_comments
        is_withheld = answer.completion.finish_reason in WITHHELD
        return answer.trajectory("chain_of_thought", "" if is_withheld else words(answer.completion.text))


def margin(task: Task) -> str:
    """Indentation of the function's body in the prompt; four spaces by default."""
    name = re.escape(task.entry_point)
    margins = re.findall(rf"^(?:async[ \t]+)?def[ \t]+{name}\b[^\n]*\n([ \t]+)\S", task.prompt, re.MULTILINE)
    return str(margins[-1]) if margins else "    "


def words_before_code(reply: str) -> str:
    """The text of a chat reply before its program: up to the first fence, or else the first statement.

    If there is none, the thoughts of a reasoning model.
    """
    text, _ = without_thoughts(reply)
    every = blocks(text)
    parts = list(takewhile(lambda block: not block.fenced, every))
    lines = "\n".join(part.text for part in parts).split("\n")
    if len(parts) == len(every):
        lines = list(takewhile(lambda line: not STATEMENT.match(line), lines))
    thoughts = THOUGHT.sub("", reply.removesuffix(text)) if reply.endswith(text) else ""
    return "\n".join(lines).strip() or thoughts.strip()


def leading_comments(reply: str) -> str:
    """The comment lines at the beginning of a continuation, without `#`; the first continues the prompt's last line."""
    first, *rest = reply.split("\n")
    lines = [first, *takewhile(lambda line: line.lstrip().startswith("#"), rest)]
    return "\n".join(line.strip().lstrip("#").strip() for line in lines).strip()
