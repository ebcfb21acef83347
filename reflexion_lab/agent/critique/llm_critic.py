"""Critiques by a model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reflexion_lab.agent.critique.verdict import Unreadable, parse_verdict
from reflexion_lab.errors import CritiqueError
from reflexion_lab.protocols import Model
from reflexion_lab.records import WITHHELD, Critique, Message, Mistake, Sampling, Task
from reflexion_lab.text.prompts.render import Prompts, fits, longest, without_prompt

CUT = {"length": "; it was cut at max_tokens"}


class LLMCritic:
    """Asks `model` for issues, suggestions and a severity of a draft. Executes nothing.

    `verdict.GRAMMAR` in `sampling` constrains models that support grammars. If the prompt exceeds the model's context,
    few-shot examples are dropped first, then mistakes, then the middle of the draft.
    """

    def __init__(self, model: Model, sampling: Sampling, prompts: Prompts | None = None) -> None:
        self.model = model
        self.sampling = sampling
        self.prompts = prompts or Prompts()

    reads_mistakes = True

    def critique(self, task: Task, program: str, mistakes: Sequence[Mistake] = ()) -> Critique:
        """Raises CritiqueError for an unreadable reply. An empty program needs no call.

        `mistakes`: mistakes on similar tasks; the prompt contains as many as fit.
        """
        if not program.strip():
            return Critique(
                severity=1.0,
                issues=(f"There is no code for {task.entry_point}." if task.entry_point else "There is no program.",),
                source="llm",
            )
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
        examples = self.prompts.examples

        def rendered(draft: str, examples: Sequence[object] = (), mistakes: Sequence[Mistake] = ()) -> str:
            about = {"prompt": task.prompt, "program": draft, "examples": examples, "mistakes": mistakes}
            return self.prompts.render(self.prompts.of_kind("critique", task), **about)

        fit = partial(fits, model=self.model, sampling=self.sampling)
        draft = longest(without_prompt(program, task), lambda draft: fit(rendered(draft)))
        while (examples or mistakes) and not fit(rendered(draft, examples, mistakes)):
            examples, mistakes = (examples[:-1], mistakes) if examples else (examples, mistakes[:-1])
        return rendered(draft, examples, mistakes)
