"""A model's opinion of a draft."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.agent.critique.verdict import Unreadable, parse_verdict
from reflexion_lab.errors import CritiqueError
from reflexion_lab.protocols import Model
from reflexion_lab.records import WITHHELD, Critique, Message, Mistake, Sampling, Task
from reflexion_lab.text.prompts.asking import room
from reflexion_lab.text.prompts.render import Prompts, longest
from reflexion_lab.text.shorten import estimated

CUT = {"length": "; it was cut at max_tokens"}


class LLMCritic:
    """Asks `model` for issues, suggestions and a severity of a draft; runs nothing.

    `verdict.GRAMMAR` in `sampling` makes a model that supports grammars write them. Where the model's context is too
    short, few-shot examples are left out first, then mistakes, then the middle of the draft.
    """

    def __init__(self, model: Model, sampling: Sampling, prompts: Prompts | None = None) -> None:
        self.model = model
        self.sampling = sampling
        self.prompts = prompts or Prompts()

    reads_mistakes = True

    def critique(self, task: Task, program: str, mistakes: Sequence[Mistake] = ()) -> Critique:
        """An empty program is criticised without a call. Raises CritiqueError for a reply that cannot be read.

        `mistakes`: those on similar tasks, which the prompt shows as far as they fit.
        """
        if not program.strip():
            return Critique(severity=1.0, issues=(f"There is no code for {task.entry_point}.",), source="llm")
        messages = (Message(role="user", content=self._prompt(task, program, mistakes)),)
        completion = self.model.complete(messages, sampling=self.sampling)
        if completion.finish_reason in WITHHELD:
            why = f"The critic gave no verdict: its reply ended in {completion.finish_reason}"
            raise CritiqueError(why, completion.usage, completion.text)
        try:
            verdict = parse_verdict(completion.text)
        except Unreadable as problem:
            why = f"The critic could not be understood: {problem}{CUT.get(completion.finish_reason, '')}"
            raise CritiqueError(why, completion.usage, completion.text) from problem
        return Critique(
            severity=verdict.severity,
            issues=verdict.issues,
            suggestions=verdict.suggestions,
            score=verdict.score,
            confidence=verdict.confidence,
            source="llm",
            messages=messages,
            reply=completion.text,
            usage=completion.usage,
        )

    def _prompt(self, task: Task, program: str, mistakes: Sequence[Mistake]) -> str:
        limit, examples = room(self.model, self.sampling), self.prompts.examples

        def rendered(draft: str, examples: Sequence[object] = (), mistakes: Sequence[Mistake] = ()) -> str:
            about = {"prompt": task.prompt, "program": draft, "examples": examples, "mistakes": mistakes}
            return self.prompts.render("critique", **about)

        def fits(text: str) -> bool:
            return limit is None or estimated(text) <= limit

        # A program that continues the prompt begins with it; reading it twice would fill a small model's context.
        draft = longest(program.removeprefix(task.prompt.rstrip()), lambda draft: fits(rendered(draft)))
        while (examples or mistakes) and not fits(rendered(draft, examples, mistakes)):
            examples, mistakes = (examples[:-1], mistakes) if examples else (examples, mistakes[:-1])
        return rendered(draft, examples, mistakes)
