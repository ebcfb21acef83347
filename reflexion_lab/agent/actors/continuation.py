"""Continuation actor: one call to a model that completes text better than it follows instructions."""

from __future__ import annotations

from reflexion_lab.protocols import Model
from reflexion_lab.records import Recollection, Sampling, Task, Trajectory
from reflexion_lab.text.prompts.render import PromptedModel, Prompts

BODY = r"""
root ::= "\n" [ \t]+ [^ \t\r\n] [^\x00]*
"""
"""GBNF for `Sampling.grammar`: the reply begins within the function's body. Otherwise a small model that has read
comments continues with an unindented comment, which is a stop text, and the reply is empty.
"""


class Continuation:
    """Lets the model continue the prompt as a file; earlier failures are comments above it.

    The prompt ends without a line break, which a small model takes for the end of the file. (SmolLM2-135M-Instruct on
    HumanEval, greedy, solves 7 of 164 tasks this way, 0 with the break, 2 in a chat with a prefilled reply.)
    """

    continues_a_file = True
    kinds = ("function",)

    def __init__(self, model: Model, sampling: Sampling, prompts: Prompts | None = None) -> None:
        self.ask = PromptedModel(model, sampling, prompts, "continuation")

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        return self.ask("solve", task, recollection).trajectory("continuation")
