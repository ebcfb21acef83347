"""Calls of a curator's model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from reflexion_lab.memory.curators.trajectories import described
from reflexion_lab.protocols import Model
from reflexion_lab.records import WITHHELD, Finished, Message, Sampling, Usage
from reflexion_lab.text.prompts.render import Prompts, fits
from reflexion_lab.text.shorten import bounded

LEAST = 200
"""Characters below which a finished loop is not shortened."""


class Reply(NamedTuple):
    text: str
    """"" for a reply that was withheld, or a prompt that is too long for the model (`Usage.refused`)."""
    usage: Usage
    is_cut: bool
    """Whether it ended at `max_tokens`."""


class Calls(NamedTuple):
    """Renders a template with finished loops, as long as the model's context allows, and calls the model.

    `max_chars`: length of each finished loop in a prompt. `submitted_only`: only the submitted attempt of a loop; else
    all. `has_verdict`: as of `described`. `constrained`: send grammars, for models that support them.
    """

    model: Model
    sampling: Sampling
    prompts: Prompts | None = None
    max_chars: int = 3000
    submitted_only: bool = True
    has_verdict: bool = True
    constrained: bool = True

    def __call__(
        self,
        name: str,
        finished: Sequence[Finished | str] = (),
        grammar: str = "",
        more_tokens: int = 0,
        **variables: object,
    ) -> Reply:
        """The reply to the template `name`, whose variable `trajectories` is the text of each finished loop.

        A text in place of a loop is shortened alike. The reply may have `more_tokens` than the sampling says. Raises
        ModelError: as of `Model.complete`.
        """
        longest = None if self.sampling.max_tokens is None else self.sampling.max_tokens + more_tokens
        sampling = replace(self.sampling, max_tokens=longest, grammar=grammar if self.constrained else "")
        chars, prompts = self.max_chars, self.prompts or Prompts()
        while True:
            trajectories = [self._text(each, chars) for each in finished]
            prompt = prompts.render(name, trajectories=trajectories, **variables)
            if fits(prompt, self.model, sampling) or chars <= LEAST or not finished:
                break
            chars = chars * 3 // 4
        completion = self.model.complete([Message(role="user", content=prompt)], sampling=sampling)
        text = "" if completion.finish_reason in WITHHELD else completion.text
        return Reply(text, completion.usage, completion.finish_reason == "length")

    def _text(self, finished: Finished | str, chars: int) -> str:
        if isinstance(finished, str):
            return bounded(finished, chars)
        return described(finished, chars, self.submitted_only, has_verdict=self.has_verdict)
