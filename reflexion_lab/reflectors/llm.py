"""Reflection in the model's own words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from reflexion_lab.prompts.render import render
from reflexion_lab.protocols import Model, ModelError
from reflexion_lab.records import Attempt, Completion, Episode, Message, Reflection, Sampling, Task, Usage
from reflexion_lab.reflectors.evidence import classify_evaluation, describe
from reflexion_lab.reflectors.fields import ParseError, parse_fields

Kind = Literal["generation_failed", "parse_error", "timeout"]


class ReflectionError(RuntimeError):
    """The model gave no usable reflection. What its reply said and cost is kept: it has been paid for."""

    def __init__(self, kind: Kind, message: str, completion: Completion | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.text = completion.text if completion else ""
        """The reply as it came, "" when there was none."""
        self.usage = completion.usage if completion else Usage()


class LLMReflector:
    """Asks `model` why the attempt failed and reads the four labelled fields from its reply.

    `max_description` (the task's text), `max_evidence` (all failing checks together) and `max_code` (the
    program) bound, in characters, what enters the prompt; of a longer text the middle is left out. Of earlier
    reflections the newest `max_priors` are shown, each text cut at 200 characters. With `fields.GRAMMAR` in
    `sampling`, a model that supports grammars cannot but write the fields.
    """

    def __init__(
        self,
        model: Model,
        sampling: Sampling,
        *,
        max_description: int = 1000,
        max_evidence: int = 2000,
        max_code: int = 2000,
        max_priors: int = 3,
    ) -> None:
        lengths = {"max_description": max_description, "max_evidence": max_evidence, "max_code": max_code}
        for name, value in lengths.items():
            if value < 1:
                raise ValueError(f"reflector.{name} is {value}; expected at least 1 character")
        if max_priors < 0:
            raise ValueError(f"reflector.max_priors is {max_priors}; expected 0 (show none) or more")
        self.model = model
        self.sampling = sampling
        self.max_description = max_description
        self.max_evidence = max_evidence
        self.max_code = max_code
        self.max_priors = max_priors

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        """Raises ReflectionError when the model fails, times out or cannot be understood."""
        completion = self._ask(self._prompt(task, attempt, episodes))
        try:
            fields = parse_fields(completion.text)
        except ParseError as error:
            cut = "; it was cut at max_tokens" if completion.finish_reason == "length" else ""
            raise ReflectionError("parse_error", f"{error}{cut}", completion) from error
        category, _ = classify_evaluation(attempt.evaluation)
        return Reflection(
            reflection_id=f"{task.task_id}#{attempt.number}",
            about_attempt=attempt.number,
            root_cause=fields.root_cause,
            what_went_wrong=fields.what_went_wrong,
            what_to_change=fields.what_to_change,
            confidence=fields.confidence,
            source="llm",
            category=category,
            action_items=(fields.what_to_change,),
            text=completion.text,
            usage=completion.usage,
        )

    def _prompt(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> str:
        priors = [episode.reflection for episode in episodes if episode.reflection is not None]
        trajectory, evaluation = attempt.trajectory, attempt.evaluation
        # A program that continues the prompt begins with it; reading it twice would fill a small model's context.
        code = (trajectory.solution or trajectory.reply).removeprefix(task.prompt.rstrip())
        evidence = "\n".join(describe(attempt, check) for check in evaluation.failures or (None,))
        return render(
            "reflect",
            description=_bounded(task.prompt, self.max_description),
            number=attempt.number,
            code=_bounded(code, self.max_code),
            evidence=_bounded(evidence, self.max_evidence),
            priors=[
                {"root_cause": prior.root_cause[:200], "what_to_change": prior.what_to_change[:200]}
                for prior in priors[len(priors) - min(self.max_priors, len(priors)) :]
            ],
        )

    def _ask(self, prompt: str) -> Completion:
        # The prompt holds the attempt's number, so no two draws within one task's loop are the same call.
        try:
            return self.model.complete([Message(role="user", content=prompt)], sampling=self.sampling)
        except TimeoutError as error:
            raise ReflectionError("timeout", str(error) or "the model did not answer in time") from error
        except ModelError as error:
            late = isinstance(error.__cause__, TimeoutError)
            raise ReflectionError("timeout" if late else "generation_failed", str(error)) from error


def _bounded(text: str, limit: int) -> str:
    """At most `limit` characters. Both ends stay: signatures stand first, and what was written last, last."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return text[:head] + "…" + text[len(text) - (limit - 1 - head) :]
