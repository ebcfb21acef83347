"""Tests that a model writes for itself, from the prompt alone (Shinn et al., arXiv 2303.11366, section 4.3)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from reflexion_lab.limits import Positive, validated
from reflexion_lab.protocols import Model
from reflexion_lab.records import WITHHELD, Completion, Message, Sampling, Task, WrittenTests
from reflexion_lab.tasks.evaluators.self_tests_asserts import LONGEST, Sieve, asserts
from reflexion_lab.text.prompts.render import Prompts


class SelfTests:
    """Asks `model` for asserts and keeps those that can serve as tests.

    Parameters
    ----------
    style : {"chat", "continuation"}, default "chat"
        `chat` asks; `continuation` lets the model continue the prompt as a file, from a begun assert on.
    max_tests : int, default 6
        So many are kept, the first ones.
    max_chars : int, default 500
        Of one assert.
    drop_visible : bool, default False
        Leave out tests that the task itself shows.
    """

    @validated
    def __init__(
        self,
        model: Model,
        sampling: Sampling,
        prompts: Prompts | None = None,
        *,
        style: Literal["chat", "continuation"] = "chat",
        max_tests: Positive = 6,
        max_chars: Annotated[int, Meta(ge=1, le=LONGEST)] = 500,
        drop_visible: bool = False,
    ) -> None:
        self.model = model
        self.sampling = sampling
        self.prompts = prompts or Prompts()
        self.style = style
        self.max_tests = max_tests
        self.max_chars = max_chars
        self.drop_visible = drop_visible

    def write(self, task: Task) -> WrittenTests:
        messages = (self._message(task),)
        completion = self.model.complete(messages, sampling=self.sampling)
        tests, dropped = self._sift(task, self._text(task, completion), completion.finish_reason == "length")
        return WrittenTests(
            task_id=task.task_id,
            tests=tuple(tests),
            dropped=dropped,
            messages=messages,
            reply=completion.text,
            finish_reason=completion.finish_reason,
            usage=completion.usage,
        )

    def _message(self, task: Task) -> Message:
        # Of the task its prompt alone, so that nothing else can reach the tests.
        about = {"prompt": task.prompt, "entry_point": task.entry_point}
        if self.style == "chat":
            return Message(role="user", content=self.prompts.render("write_tests", n=self.max_tests, **about))
        return Message(role="assistant", content=self.prompts.render("continue_tests", **about))

    def _text(self, task: Task, completion: Completion) -> str:
        if completion.finish_reason in WITHHELD:
            return ""
        prefix = f"assert {task.entry_point}" if self.style == "continuation" and completion.text.strip() else ""
        return prefix + completion.text

    def _sift(self, task: Task, text: str, is_cut: bool) -> tuple[list[str], dict[str, str]]:
        """Tests that are kept, and the others with the reason."""
        tests: list[str] = []
        dropped: dict[str, str] = {}
        if is_cut:  # half of `== 12` may well be Python
            text, _, last = text.rpartition("\n")
            dropped |= {test.source: "cut off" for test in asserts(last, self.max_chars)}
        sieve = Sieve(task, task.visible_tests if self.drop_visible else ())
        for test in asserts(text, self.max_chars):
            reason = sieve.refusal(test) or ("one too many" if len(tests) >= self.max_tests else "")
            if reason:
                dropped.setdefault(test.source, reason)
            else:
                tests.append(test.source)
        return tests, dropped
