"""Reflections by a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import asdict, replace

from reflexion_lab.agent.actors.play import transcript
from reflexion_lab.agent.reflectors.evidence import classify_evaluation, describe, in_words_of, reflection_on
from reflexion_lab.agent.reflectors.fields import (
    GRAMMAR,
    LESSONS,
    OF_FUNCTIONS,
    SERVICE,
    SESSION,
    SUCCESS,
    ParseError,
    parse_fields,
    prose,
)
from reflexion_lab.errors import ModelNotFound, StoreError, Unanswered
from reflexion_lab.limits import Count, Positive, validated
from reflexion_lab.protocols import Model
from reflexion_lab.records import WITHHELD, Attempt, Completion, Episode, Message, Reflection, Sampling, Task
from reflexion_lab.text.prompts.render import Prompts, fits, without_prompt
from reflexion_lab.text.shorten import bounded

Kind = Literal["generation_failed", "parse_error", "storage_error", "not_found", "timeout"]
Shape = Literal["fields", "lessons", "service", "session"]
SHAPES: dict[Shape, tuple[tuple[str, str], tuple[str, str]]] = {
    "fields": (("reflect", GRAMMAR), ("reflect_success", SUCCESS)),
    "lessons": (("reflect_lessons", LESSONS), ("reflect_success", SUCCESS)),
    "service": (("reflect_service", SERVICE), ("reflect_service", SERVICE)),
    "session": (("reflect_session", SESSION), ("reflect_session", SESSION)),
}
"""Template and grammar of each form, after a failure and after a pass."""
SHORT = 160
"""Length to which program and evidence are shortened before the task's text is."""


class ReflectionError(RuntimeError):
    """The model's reply is no reflection. Has the reply and its cost."""

    def __init__(self, kind: Kind, message: str, completion: Completion) -> None:
        super().__init__(message)
        self.kind = kind
        self.text = completion.text
        self.usage = completion.usage


class LLMReflector:
    """Asks `model` why an attempt failed, or why it passed, and parses labelled lines or JSON; prose is the change.

    If the prompt exceeds the model's context, few-shot examples are dropped first, then the oldest earlier reflections;
    then the middle of program and evidence is cut further, and finally the task's text. `max_description`,
    `max_evidence`, `max_code`: largest numbers of characters, 1 or more, of the task's text, of all failing checks
    together, and of the program; the middle of a longer text is cut. `max_priors`: number of earlier reflections in the
    prompt, the newest, each text cut to 200 characters; 0 or more. `shape`: one of `SHAPES`. `constrained`: send the
    grammar of `shape`, for models that support grammars.
    """

    @validated
    def __init__(
        self,
        model: Model,
        sampling: Sampling,
        prompts: Prompts | None = None,
        *,
        max_description: Positive = 1000,
        max_evidence: Positive = 2000,
        max_code: Positive = 2000,
        max_priors: Count = 3,
        shape: Shape = "fields",
        constrained: bool = True,
    ) -> None:
        self.limits = {"description": max_description, "evidence": max_evidence, "code": max_code}
        self.model = model
        self.sampling = sampling
        self.prompts = prompts or Prompts()
        self.max_priors = max_priors
        self.shape = SHAPES[shape]
        self.constrained = constrained

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection:
        """Raises ReflectionError if the reply was withheld or cannot be read; exceptions of the model pass through."""
        name, grammar = self.form(attempt)
        name = self.prompts.of_kind(name, task)
        for of_function, other in OF_FUNCTIONS.items() if task.kind != "function" else ():
            grammar = grammar.replace(of_function, other)
        sampling = replace(self.sampling, grammar=in_words_of(task, grammar) if self.constrained else "")
        # The prompt holds the attempt's number, so no two draws within one task's loop are the same call.
        prompt = Message(role="user", content=self._prompt(name, task, attempt, episodes))
        completion = self.model.complete([prompt], sampling=sampling)
        if completion.finish_reason in WITHHELD:
            raise ReflectionError("generation_failed", f"the reply ended in {completion.finish_reason}", completion)
        return self.read(attempt, completion, prompt.content)

    def form(self, attempt: Attempt) -> tuple[str, str]:
        """Template and grammar."""
        return self.shape[attempt.evaluation.passed]

    def read(self, attempt: Attempt, completion: Completion, prompt: str) -> Reflection:
        """The reflection in a reply. Raises ReflectionError: it has none."""
        try:
            fields = parse_fields(completion.text)
        except ParseError as error:
            cut = "; it was cut at max_tokens" if completion.finish_reason == "length" else ""
            if not cut and (words := prose(completion.text, prompt)):
                change = {"what_to_change": words, "action_items": (words,), "flags": ("unlabelled",)}
                return reflection_on(attempt, "llm", **change, text=completion.text, usage=completion.usage)
            raise ReflectionError("parse_error", f"{error}{cut}", completion) from error
        values = asdict(fields)
        values["confidence_source"] = "stated" if values.pop("is_stated") else "none"  # a default is not to calibrate
        values["category"] = fields.category or classify_evaluation(attempt.evaluation)[0]
        values["action_items"] = fields.action_items or (fields.what_to_change,)
        return reflection_on(attempt, "llm", **values, text=completion.text, usage=completion.usage)

    def _prompt(self, name: str, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> str:
        """The prompt, fitted into the model's context if possible."""
        trajectory = attempt.trajectory
        code = trajectory.solution or ("" if trajectory.finish_reason in WITHHELD else trajectory.reply)
        code = transcript(trajectory) if trajectory.strategy == "play" else code
        facts = in_words_of(task, evidence(attempt))
        whole = {"description": task.prompt, "evidence": facts, "code": without_prompt(code, task)}
        texts = {part: bounded(text, self.limits[part]) for part, text in whole.items()}
        examples, priors = self.prompts.examples, self._priors(episodes)
        about = {"number": attempt.number, "passed": attempt.evaluation.passed}
        while True:
            text = self.prompts.render(name, examples=examples, priors=priors, **about, **texts)
            if fits(text, self.model, self.sampling):
                return text
            if examples:
                examples = examples[:-1]
            elif priors:
                priors = priors[1:]
            elif part := _most_dispensable(texts):
                texts[part] = bounded(texts[part], len(texts[part]) * 3 // 4)
            else:
                return text

    def _priors(self, episodes: Sequence[Episode]) -> list[dict[str, str]]:
        reflections = [episode.reflection for episode in episodes if episode.reflection]
        priors = [prior for prior in reflections if prior.root_cause or prior.what_to_change]
        return [
            {
                "root_cause": prior.root_cause[:200],
                "what_to_change": prior.what_to_change[:200],
                "lesson": next(filter(None, (prior.key_insight, *prior.lessons)), "")[:200],
            }
            for prior in priors[max(len(priors) - self.max_priors, 0) :]
        ]


def kind_of(problem: Exception) -> Kind:
    """Kind of failure: no answer in time, no such model, a store error, or another reason."""
    outcome = problem.outcome if isinstance(problem, Unanswered) else ""
    if outcome == "timeout" or isinstance(problem, TimeoutError) or isinstance(problem.__cause__, TimeoutError):
        return "timeout"
    if outcome == "wrong_model" or isinstance(problem, ModelNotFound):
        return "not_found"
    return "storage_error" if isinstance(problem, StoreError) else "generation_failed"


def evidence(attempt: Attempt) -> str:
    """The failing checks, one per line, or the outcome of the evaluation; for an attempt that passed, its checks."""
    evaluation = attempt.evaluation
    if evaluation.passed:
        return "\n".join(check.name for check in evaluation.checks)
    failures = () if evaluation.outcome == "extraction_failed" else evaluation.failures
    return "\n".join(describe(attempt, check) for check in failures or (None,))


def _most_dispensable(texts: dict[str, str]) -> str:
    """The text to shorten next; "" if all are at their minimum."""
    for least in (SHORT, 1):
        for parts in (("code", "evidence"), ("description",)):
            longest = max(parts, key=lambda part: len(texts[part]))
            if len(texts[longest]) > least:
                return longest
    return ""
