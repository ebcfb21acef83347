"""A model's opinion of a draft."""

from __future__ import annotations

from reflexion_lab.agent.critique.verdict import Unreadable, parse_verdict
from reflexion_lab.errors import CritiqueError
from reflexion_lab.protocols import Model
from reflexion_lab.records import WITHHELD, Critique, Message, Recollection, Sampling, Task
from reflexion_lab.text.prompts.asking import room
from reflexion_lab.text.prompts.excerpt import longest
from reflexion_lab.text.prompts.length import estimated
from reflexion_lab.text.prompts.render import Prompts

CUT = {"length": "; it was cut at max_tokens"}


class LLMCritic:
    """Asks `model` for issues, suggestions and a severity, of the task's prompt and the draft alone: it runs nothing.

    With `verdict.GRAMMAR` in `sampling`, a model that supports grammars cannot but write them. Of a draft for which the
    model's context has no room the middle is left out, after the few-shot examples.
    """

    def __init__(self, model: Model, sampling: Sampling, prompts: Prompts | None = None) -> None:
        self.model = model
        self.sampling = sampling
        self.prompts = prompts or Prompts()

    def critique(self, task: Task, program: str) -> Critique:
        """Without a program, that is said without a call. Raises CritiqueError for a reply that says nothing."""
        if not program.strip():
            return Critique(severity=1.0, issues=(f"There is no code for {task.entry_point}.",), source="llm")
        messages = (Message(role="user", content=self._prompt(task, program)),)
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

    def _prompt(self, task: Task, program: str) -> str:
        limit = room(self.model, self.sampling)

        def fits(draft: str) -> bool:
            text = self.prompts.render("critique", prompt=task.prompt, program=draft, examples=())
            return limit is None or estimated(text) <= limit

        # A program that continues the prompt begins with it; reading it twice would fill a small model's context.
        draft = longest(program.removeprefix(task.prompt.rstrip()), fits)
        return self.prompts.fit("critique", limit, Recollection(), prompt=task.prompt, program=draft).text
